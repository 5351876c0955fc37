"""The newest checkpoint that holds together, and what was passed over."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from rerail.checkpoints.choose import choose_checkpoint, find_checkpoints


def write(path: Path, age_seconds: float, *, is_torn: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights", "0123456789" * 50)
    if is_torn:
        path.write_bytes(path.read_bytes()[:-30])
    at = 1_700_000_000 - age_seconds
    os.utime(path, (at, at))


def test_the_newest_is_chosen(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        write(tmp_path / f"run/step-{step}.pt", age_seconds=100 - step)
    choice = choose_checkpoint("run/*.pt", tmp_path)
    assert choice.chosen is not None and choice.chosen.path == Path("run/step-30.pt")
    assert choice.skipped == () and choice.found == 3


def test_a_torn_one_is_passed_over_and_named(tmp_path: Path) -> None:
    write(tmp_path / "step-1.pt", 30)
    write(tmp_path / "step-2.pt", 20, is_torn=True)
    write(tmp_path / "step-3.pt", 10, is_torn=True)
    choice = choose_checkpoint("*.pt", tmp_path)
    assert choice.chosen is not None and choice.chosen.path.name == "step-1.pt"
    assert [skipped.path.name for skipped in choice.skipped] == ["step-3.pt", "step-2.pt"]
    assert all(skipped.problem for skipped in choice.skipped)
    assert (tmp_path / "step-3.pt").exists()


def test_none_is_sound_or_there(tmp_path: Path) -> None:
    assert choose_checkpoint("*.pt", tmp_path).found == 0
    write(tmp_path / "a.pt", 0, is_torn=True)
    choice = choose_checkpoint("*.pt", tmp_path)
    assert choice.chosen is None and len(choice.skipped) == 1


def test_one_that_the_program_refused_is_not_chosen_again(tmp_path: Path) -> None:
    write(tmp_path / "step-1.pt", 20)
    write(tmp_path / "step-2.pt", 10)
    refused = {Path("step-2.pt"): "the program could not load it"}
    choice = choose_checkpoint("*.pt", tmp_path, refused)
    assert choice.chosen is not None and choice.chosen.path.name == "step-1.pt"
    assert choice.skipped[0].problem == "the program could not load it"


def test_numbers_decide_where_the_clock_does_not(tmp_path: Path) -> None:
    for step in (9, 10, 100):
        write(tmp_path / f"step-{step}.pt", age_seconds=50)
    assert [path.name for path in find_checkpoints("*.pt", tmp_path)] == [
        "step-100.pt",
        "step-10.pt",
        "step-9.pt",
    ]


def test_a_link_to_a_checkpoint_is_the_same_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "step-1.pt", 50)
    (tmp_path / "last.pt").symlink_to("step-1.pt")
    (tmp_path / "gone.pt").symlink_to("nowhere.pt")
    assert find_checkpoints("*.pt", tmp_path) == [Path("step-1.pt")]


def test_folders_and_patterns_over_folders(tmp_path: Path) -> None:
    write(tmp_path / "out/checkpoint-5/model.bin", 100)
    write(tmp_path / "out/checkpoint-10/model.bin", 50, is_torn=True)
    choice = choose_checkpoint(f"{tmp_path}/**/checkpoint-*", Path("/"))
    assert choice.chosen is not None and choice.chosen.path.name == "checkpoint-5"
    assert "model.bin" in str(choice.skipped[0].problem)


def test_an_unknown_format_is_compared_with_its_siblings(tmp_path: Path) -> None:
    for step, size in ((1, 1000), (2, 1000), (3, 300)):
        path = tmp_path / f"{step}.weights"
        path.write_bytes(b"\x01" * size)
        os.utime(path, (step, step))
    choice = choose_checkpoint("*.weights", tmp_path)
    assert choice.chosen is not None and choice.chosen.path.name == "2.weights"
    assert "300 bytes" in str(choice.skipped[0].problem)


def test_what_was_written_after_the_loss_went_bad_is_passed_over(tmp_path: Path) -> None:
    for step, age in ((1, 30), (2, 20), (3, 10)):
        write(tmp_path / f"step-{step}.pt", age)
    bad_since = 1_700_000_000 - 25
    choice = choose_checkpoint("*.pt", tmp_path, bad_since_unix=bad_since)
    assert choice.chosen is not None and choice.chosen.path.name == "step-1.pt"
    assert "no longer finite" in str(choice.skipped[0].problem)
