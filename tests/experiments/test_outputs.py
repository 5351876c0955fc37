"""Which words of a command name where it writes, and the same command writing elsewhere."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rerail.experiments.trials.outputs import (
    Period,
    Surroundings,
    fill,
    find_outputs,
    write_elsewhere,
)

LONG_AGO = 1_000_000_000


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """A run that wrote into out/ and cache/, and read data/."""
    for name in ("out", "data", "cache", "home/runs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / "x.bin").write_text("x")
    os.utime(tmp_path / "data" / "x.bin", (LONG_AGO, LONG_AGO))
    (tmp_path / "train.py").write_text("")
    (tmp_path / "out" / "config.json").write_text("{}")
    os.utime(tmp_path / "out" / "config.json", (LONG_AGO, LONG_AGO))
    for name in ("out/step-10.pt", "out/step-20.pt", "out/log.txt", "cache/index"):
        (tmp_path / name).write_text(name)
    now = time.time()
    checkpoints = frozenset(tmp_path / "out" / f"step-{n}.pt" for n in (10, 20))
    return Surroundings(
        cwd=tmp_path,
        home=tmp_path / "home",
        checkpoint=tmp_path / "out" / "step-20.pt",
        others=checkpoints,
        period=Period(now - 60, now + 60),
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--where", "out"], ["out"]),  # the checkpoint is there, whatever the option is called
        (["--where=out"], ["out"]),
        (["job.place=out"], ["out"]),
        (["out"], ["out"]),
        (["--index", "cache"], ["cache"]),  # written while the run lived
        (["--tsv", "out/log.txt"], ["out/log.txt"]),
        (["--data", "data"], []),
        (["--output_dir", "new"], ["new"]),  # by its name: nothing is there yet
        (["--model", "new"], []),
        (["--out", "."], []),  # the command itself lies there
        (["--out", ".."], []),
        (["--url", "http://out"], []),
    ],
)
def test_an_output_is_known_by_what_the_run_did(
    words: list[str], found: list[str], around: Surroundings
) -> None:
    outputs = find_outputs(["python", "train.py", *words], around)
    assert [str(each.path.relative_to(around.cwd)) for each in outputs] == found


def test_a_word_keeps_its_form_and_one_output_may_lie_in_another(around: Surroundings) -> None:
    command = ["python", "train.py", "--log", "out/log.txt", "--out=out", "--data", "data"]
    outputs = find_outputs(command, around)
    moved = write_elsewhere(command, outputs, around.cwd / "s")
    place = around.cwd / "s" / "output-0" / "out"
    assert moved.command == (
        *("python", "train.py", "--log", f"{place}/log.txt"),
        *(f"--out={place}", "--data", "data"),
    )
    assert moved.of(around.cwd / "out" / "step-20.pt") == place / "step-20.pt"
    assert moved.of(around.cwd / "data") is None


@pytest.mark.parametrize(
    ("goes_on", "names"), [(True, ["config.json", "log.txt"]), (False, ["config.json"])]
)
def test_what_the_command_may_want_to_read_goes_with_it_but_no_checkpoint(
    goes_on: bool, names: list[str], around: Surroundings
) -> None:
    command = ["python", "train.py", "--out", "out"]
    moved = write_elsewhere(command, find_outputs(command, around), around.cwd / "s")
    fill(moved, around, goes_on=goes_on)
    place = around.cwd / "s" / "output-0" / "out"
    assert sorted(path.name for path in place.iterdir()) == names
