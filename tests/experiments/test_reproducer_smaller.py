"""Smaller commands and smaller archives: pieces, ddmin, rows, scripts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.errors import UsageError
from rerail.experiments.reproducer.files import Reproducer, refuse_if_taken, write
from rerail.experiments.reproducer.npz_slice import rows_of, write_first_rows
from rerail.experiments.reproducer.smaller import fewest, length_options, smallest, take_apart
from rerail.experiments.trials.failure import Failure

FAILURE = Failure("native-segfault", "signal", "SIGSEGV", None, None, "ended by SIGSEGV", "r")


@pytest.mark.parametrize(
    ("command", "head", "pieces"),
    [
        (
            "python -u train.py data.npz --a 1 --b --c=3",
            "python -u train.py",
            [("data.npz",), ("--a", "1"), ("--b",), ("--c=3",)],
        ),
        (
            "python -X dev -m pkg.train --lr -1e-3",
            "python -X dev -m pkg.train",
            [("--lr", "-1e-3")],
        ),
        ("env A=1 B=2 python t.py --x 1 2", "python t.py", [("A=1",), ("B=2",), ("--x", "1", "2")]),
        ("torchrun --nproc 2 t.py --x", "torchrun --nproc 2 t.py", [("--x",)]),
        ("sh run.sh --x 1", "sh run.sh", [("--x", "1")]),
        ("sh -c script", "sh -c script", []),
        ("trainer lr=1 --x", "trainer", [("lr=1",), ("--x",)]),
    ],
)
def test_a_command_falls_into_what_stays_and_what_may_go(
    command: str, head: str, pieces: list[tuple[str, ...]]
) -> None:
    parts = take_apart(command.split())
    assert " ".join(parts.head) == head
    assert list(parts.pieces) == pieces
    assert " ".join(parts.command(parts.pieces)) == command


def test_assignments_go_with_env_itself() -> None:
    parts = take_apart(["env", "A=1", "python", "t.py", "--x"])
    assert parts.command([("--x",)]) == ("python", "t.py", "--x")


@settings(deadline=None)
@given(st.sets(st.integers(0, 11)), st.integers(0, 12))
def test_what_is_kept_is_what_is_needed(needed: set[int], count: int) -> None:
    pieces = [(f"--{i}",) for i in range(count)]
    wanted = {(f"--{i}",) for i in needed if i < count}
    assert set(fewest(pieces, lambda kept: wanted <= set(kept))) == wanted


@settings(deadline=None)
@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_the_smallest_number_that_fails_is_found_to_a_factor(most: int, needed: int) -> None:
    asked: list[int] = []

    def fails(count: int) -> bool:
        asked.append(count)
        return count >= needed

    found = smallest(most, fails)
    assert found == most or fails(found)
    assert found <= max(1.5 * needed, 2) or found == most
    assert len(asked) <= 20


def test_options_that_say_how_long_it_runs() -> None:
    assert length_options(["python", "t.py", "--max-steps=9", "--epochs", "2"], "") == [
        "--max-steps",
        "--epochs",
    ]
    text = 'add_argument("--steps", type=int)\nadd_argument("--step-size")\nadd_argument("--lr")'
    assert length_options(["python", "t.py"], text) == ["--steps"]


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_the_first_rows_of_an_archive(save: object, tmp_path: Path) -> None:
    arrays = {
        "floats": numpy.arange(60.0).reshape(20, 3),
        "words": numpy.array(["abc", "d"] * 10),
        "fortran": numpy.asfortranarray(numpy.arange(40).reshape(20, 2)),
        "scalar": numpy.float32(3),
        "few": numpy.arange(4, dtype=">i2"),
        "flags": numpy.ones((20, 2, 2), dtype=bool),
    }
    whole, part = tmp_path / "whole.npz", tmp_path / "part.npz"
    save(whole, **arrays)  # type: ignore[operator]
    assert rows_of(whole) == 20
    write_first_rows(whole, part, 5)
    read = numpy.load(part)
    for name in ("floats", "words", "flags"):
        assert numpy.array_equal(read[name], arrays[name][:5]), name
    for name in ("fortran", "scalar", "few"):
        assert numpy.array_equal(read[name], arrays[name]), name


def test_what_is_no_archive_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\x03\x04 not really")
    assert rows_of(path) == 0
    assert rows_of(tmp_path / "missing.npz") == 0


def test_the_script_ends_as_the_command_does(tmp_path: Path) -> None:
    folder = tmp_path / "a reproducer"
    write(folder, Reproducer(("sh", "-c", "pwd; kill -SEGV $$"), str(tmp_path), FAILURE))
    done = subprocess.run(["sh", folder / "run.sh"], capture_output=True, text=True)
    assert done.returncode == -11 and done.stdout.strip() == str(tmp_path)
    assert "SIGSEGV" in (folder / "README.md").read_text()


def test_the_script_of_a_random_failure_repeats_it(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    script = f"echo x >> {counter}; test $(wc -l < {counter}) -lt 3"
    folder = tmp_path / "reproducer"
    write(folder, Reproducer(("sh", "-c", script), str(tmp_path), FAILURE, runs=5))
    done = subprocess.run(["sh", folder / "run.sh"], capture_output=True)
    assert done.returncode == 1 and len(counter.read_text().split()) == 3


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    refuse_if_taken(tmp_path / "new")
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError, match="there already"):
            refuse_if_taken(taken)
