"""Nodes that go on after a failure take the same checkpoint, or it is said that they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rerail.jobs.agreement import agree, decide

NAMES = ["step-3", "step-2", "step-1"]
TRAINS = """
import ctypes, os, sys, time
if len(sys.argv) > 1:
    print("resumed", sys.argv[1])
else:
    others = [os.path.join(os.environ["MEET"], name) for name in ("a", "b")]
    open(os.path.join(os.environ["MEET"], os.environ["RERAIL_NODE"]), "w").close()
    while not all(map(os.path.exists, others)):
        time.sleep(0.01)
    ctypes.string_at(0)
"""


def test_the_newest_that_all_have() -> None:
    assert decide(NAMES, {"b": NAMES}).checkpoint == "step-3"
    agreed = decide(NAMES, {"b": NAMES[1:], "c": NAMES})
    assert agreed.checkpoint == "step-2"
    assert agreed.remarks == ("node b does not have step-3: all go on from step-2",)


def test_who_has_none_or_says_nothing_decides_nothing() -> None:
    """Often one rank alone writes checkpoints, on the disk of its machine."""
    agreed = decide(NAMES, {"b": [], "c": None})
    assert agreed.checkpoint == "step-3"
    assert agreed.remarks == ("not known yet which checkpoint c will go on from",)
    assert decide([], {"b": NAMES}).checkpoint is None


def test_that_they_differ_is_said() -> None:
    agreed = decide(["step-1"], {"b": ["step-9"]})
    assert agreed.checkpoint == "step-1"
    assert "node b goes on from step-9" in agreed.remarks[0] and "differ" in agreed.remarks[0]


@given(st.lists(st.lists(st.integers(0, 9).map(str), unique=True, max_size=6), min_size=2))
def test_all_come_to_the_same_if_they_have_one_in_common(nodes: list[list[str]]) -> None:
    ordered = [sorted(names, reverse=True) for names in nodes]
    chosen = set()
    for at, own in enumerate(ordered):
        others = {str(n): names for n, names in enumerate(ordered) if n != at}
        if own:
            chosen.add(decide(own, others).checkpoint)
    with_any = [set(names) for names in ordered if names]
    if with_any and (common := set.intersection(*with_any)):
        assert chosen == {max(common)}


def test_a_place_that_cannot_be_written_leaves_the_own_choice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    agreed = agree(str(tmp_path / "file"), "j", "a", 2, NAMES)
    assert agreed.checkpoint == "step-3" and "were not asked" in agreed.remarks[0]


def test_two_nodes_of_which_one_lacks_the_newest(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "meet").mkdir()
    running = []
    for node, names in (("a", ("1", "2")), ("b", ("1",))):
        folder = tmp_path / node
        folder.mkdir()
        for at, name in enumerate(names):
            (folder / f"{name}.weights").write_bytes(b"weights" * 100)
            os.utime(folder / f"{name}.weights", (1.7e9 + at, 1.7e9 + at))
        words = ["run", "--job", "j", "--job-dir", str(tmp_path / "jobs"), "--nnodes", "2"]
        words += ["--restarts", "1", "--backoff", "0", "--checkpoint", "*.weights"]
        words += ["--resume-args", "{checkpoint}", "--home", "home"]
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "rerail", *words, "--", sys.executable, "../train.py"],
                cwd=folder,
                env={**os.environ, "RERAIL_NODE": node, "MEET": str(tmp_path / "meet")},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [each.communicate(timeout=240) for each in running]
    assert [out for out, _ in said] == ["resumed 1.weights\n"] * 2, said
    assert "not all nodes of the job have it" in said[0][1]
