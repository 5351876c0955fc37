"""A fixed number of cases of every target, always the same; and that the bars can fail."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_bars import Bars, Finding
from fuzz_runner import HERE, fuzz, load_target, replay_command, target_names


@pytest.mark.thorough
@pytest.mark.parametrize("name", target_names())
def test_the_bars_hold(name: str) -> None:
    found = fuzz(name, cases=load_target(name).cases)
    assert found.cases >= load_target(name).cases
    told = [f"{what}\nsee it again: {replay_command(name, seed)}" for seed, what in found.findings]
    assert not told, "\n\n".join(told)


@pytest.mark.parametrize("name", target_names())
def test_a_seed_makes_the_same_case_again(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    made = []
    for at in range(2):
        folder = tmp_path / str(at)
        folder.mkdir()
        value = target.make(random.Random(7), folder)
        made.append(value if isinstance(value, (bytes, str)) else contents(folder))
    assert made[0] == made[1]


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = file.read(1 << 20)
    return found


def test_an_error_that_is_not_the_user_s_is_a_finding() -> None:
    with pytest.raises(Finding, match="ZeroDivisionError"):
        Bars().call(lambda: 1 / 0)


def test_a_wrong_status_is_a_finding() -> None:
    with pytest.raises(Finding, match="ended with 2"):
        Bars().command("show", "no-such-run", statuses=(0, 1))


BROKEN = """
from fuzz_runner import Target
def make(rng, folder): return rng.random()
def check(made, bars): bars.call({body})
TARGET = Target(make, check, cases=2)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "wall_seconds", "says"),
    [
        ("lambda: sum(0 for _ in iter(int, 1))", 60.0, "s of processor time"),
        ("lambda: bytearray(3 << 30)", 60.0, "MemoryError"),
        ("lambda: __import__('time').sleep(100)", 2.0, "s without an end"),
        ("lambda: __import__('os').abort()", 60.0, "ended with -6"),
    ],
    ids=["for ever", "memory", "waits", "dies"],
)
def test_the_runner_sees_what_a_case_does_to_it(
    tmp_path: Path, body: str, wall_seconds: float, says: str
) -> None:
    """With short bars, in a copy of this folder that has one broken target."""
    for path in HERE.glob("*.py"):
        text = path.read_text()
        if path.name == "fuzz_bars.py":
            text = text.replace("CPU_SECONDS = 10.0", "CPU_SECONDS = 1.0")
            text = text.replace("WALL_SECONDS = 180.0", f"WALL_SECONDS = {wall_seconds}")
        (tmp_path / path.name).write_text(text)
    (tmp_path / "target_broken.py").write_text(BROKEN.format(body=body))
    done = subprocess.run(
        [sys.executable, str(tmp_path), "--target", "broken", "--cases", "1", "--first", "5"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "--replay 5" in done.stdout
    assert says in done.stdout
