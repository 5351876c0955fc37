"""`rerail verify` on commands that really die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent.parent / "programs"
DIES = [sys.executable, str(PROGRAMS / "isolate_dies.py")]
TRAINS = [sys.executable, str(PROGRAMS / "remedy_trains.py")]
RERAIL = [sys.executable, "-m", "rerail"]


def rerail(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RERAIL, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )


def verify(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = rerail(folder, "verify", "--yes", "--json", *arguments)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.thorough
@pytest.mark.torch
def test_a_fix_is_proven_by_one_run_past_the_step_and_its_cost_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [*TRAINS, "--dies-at", "23", "--dies-when", "always", "--pause", "0.01"]
    assert rerail(tmp_path, "run", "--", *command).returncode == -signal.SIGSEGV
    status, document = verify(tmp_path, "--with", "GOOD=1", "--", *command)
    assert (status, document["status"]) == (0, "proven")
    assert document["before"]["crashes"] == [23, 23]  # the one on record, and one to see it again
    assert document["before"]["pattern"] == "fixed-step"
    assert document["needed"]["exposure"] == 24 and document["needed"]["runs"] == 1
    assert 0.95 <= document["reached"] < 1.0  # two crashes may agree by chance
    assert document["clean"] >= 24
    cost = document["cost"]
    assert cost["loss"]["differs_from_step"] is None and cost["loss"]["last_step"] == 22
    assert cost["throughput"]["before"] > 0 and cost["memory"]["after_bytes"] > 0
    assert document["summary"][0].startswith("Proven to 95 %: with GOOD=1")
    kept = tmp_path / ".rerail" / "runs" / document["failure"]["run"] / "verification.json"
    assert json.loads(kept.read_text())["status"] == "proven"
    # Asked again, it answers from what it has.
    status, again = verify(tmp_path, "--with", "GOOD=1", "--", *command)
    assert (status, again["trials"]) == (0, document["trials"])


@pytest.mark.thorough
def test_a_failure_without_steps_is_measured_by_the_clock(tmp_path: Path) -> None:
    status, document = verify(tmp_path, "--with", "--mode good", "--", *DIES)
    assert (status, document["status"]) == (0, "proven")
    assert document["unit"] == "seconds"
    assert len(document["references"]) == 2  # nothing was on record
    assert document["clean"] >= document["needed"]["exposure"]
    useless = ["--with", "--colour blue"]
    status, document = verify(tmp_path, *useless, "--", *DIES)
    assert (status, document["status"]) == (1, "refuted")
    _, again = verify(tmp_path, *useless, "--", *DIES)
    assert again["trials"] == document["trials"]
    _, fresh = verify(tmp_path, *useless, "--fresh", "--", *DIES)
    assert fresh["status"] == "refuted" and fresh["trials"] != document["trials"]


@pytest.mark.thorough
def test_a_fix_inside_the_program(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    command = [sys.executable, "train.py"]
    wrong = "raise RuntimeError('mat1 and mat2 shapes cannot be multiplied (4x8 and 16x1)')"
    program.write_text(f"import time\ntime.sleep(0.1)\n{wrong}\n")
    assert rerail(tmp_path, "run", "--", *command).returncode == 1
    status, document = verify(tmp_path, "--", *command)
    assert (status, document["status"]) == (1, "refuted")
    # Asked again it is run again: what was mended may not be in the program's own file.
    status, document = verify(tmp_path, "--", *command)
    assert (status, document["status"]) == (1, "refuted")
    assert len(document["before"]["crashes"]) == 2 and len(document["trials"]) == 1
    program.write_text("import time\ntime.sleep(2.0)\n")
    status, document = verify(tmp_path, "--", *command)
    assert (status, document["status"]) == (0, "proven")
    assert len(document["before"]["crashes"]) == 3 and not document["references"]


def test_a_budget_that_is_too_small_proves_nothing(tmp_path: Path) -> None:
    rerail(tmp_path, "run", "--", *DIES)
    rerail(tmp_path, "run", "--", *DIES)
    done = rerail(
        tmp_path,
        *("verify", "--yes", "--with", "--mode good", "--confidence", "0.999", "--budget", "1s"),
        *("--", *DIES),
    )
    assert done.returncode == 1
    assert "Not proven: the time of the budget was used up." in done.stdout
    assert "more than the budget" in done.stderr  # said before it began


@pytest.mark.thorough
def test_ctrl_c_keeps_what_was_learnt_and_the_same_command_goes_on(tmp_path: Path) -> None:
    # So sure that several runs are needed.
    arguments = ["--json", "--with", "--mode good", "--confidence", "0.99", "--", *DIES]
    process = subprocess.Popen(
        [*RERAIL, "verify", "--yes", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "with --mode good: ended well" in line:
            break
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["status"] == "not-proven" and document["ended_because"] == "interrupted"
    seen = {trial["run"] for trial in document["trials"]}
    _, after = verify(tmp_path, *arguments[1:])
    assert after["status"] == "proven"
    assert seen <= {trial["run"] for trial in after["trials"]}


def test_a_change_that_never_took_effect_shows_nothing(tmp_path: Path) -> None:
    status, document = verify(tmp_path, "--with", "without-module=faiss", "--", *DIES)
    assert (status, document["status"]) == (1, "not-proven")
    assert "without-module=faiss did not take effect" in document["ended_because"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--with", "--mode good"], "no command"),
        (["--with", "nonsense", "--", "true"], "not a change"),
        (["--with", "--mode good", "--", *DIES, "--mode", "good"], "already"),
        (["--with", "A=1", "--", "no-such-command-here"], "no-such-command-here"),
        (["--with", "--a 1", "--with", "--a 2", "--", "true"], "values of one thing"),
        (["--", "true"], "nothing to compare with"),
        (["--budget", "soon", "--", "true"], "not a time"),
        (["--confidence", "1", "--", "true"], "confidence"),
    ],
)
def test_wrong_usage_is_a_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = rerail(tmp_path, "verify", *arguments)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr


def test_an_own_change_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    rerail(tmp_path, "run", "--", *DIES)
    done = rerail(tmp_path, "verify", "--with", "one-openmp-runtime", "--", *DIES)
    assert done.returncode == 2 and "does not apply" in done.stderr


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_leak_that_is_only_slower_is_refuted_and_its_memory_not_praised(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "grows_until_it_dies.py")]
    assert rerail(tmp_path, "run", "--", *command, "--chunk", "8").returncode == 1
    arguments = ["--with", "--chunk 6", "--", *command, "--chunk", "8"]
    status, document = verify(tmp_path, *arguments)
    assert (status, document["status"]) == (1, "refuted")
    assert document["cost"]["memory"]["died_of"] == document["failure"]["cause"]
    (memory,) = [line for line in document["summary"] if line.startswith("Memory")]
    assert "died of" in memory and "%" not in memory


@pytest.mark.thorough
def test_a_failure_before_the_first_step_is_measured_in_steps(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "fails_at_start.py")]
    assert rerail(tmp_path, "run", "--", *command).returncode == 1
    status, document = verify(tmp_path, "--with", "GOOD=1", "--", *command)
    assert (status, document["status"], document["unit"]) == (0, "proven", "steps")
    assert document["before"]["crashes"] == [1, 1] and len(document["trials"]) <= 3
    # Asked again, it answers from what it has.
    status, again = verify(tmp_path, "--with", "GOOD=1", "--", *command)
    assert (status, again["trials"]) == (0, document["trials"])
