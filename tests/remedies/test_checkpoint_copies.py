"""Copies of checkpoints: equal, apart from their source, and whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rerail.checkpoints import NoRoom, copy_apart, remove_copies, size_of


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    outside = tmp_path / "shared.json"
    outside.write_text("shared")
    folder = tmp_path / "checkpoint-10"
    (folder / "rank-0").mkdir(parents=True)
    (folder / "rank-0" / "weights.bin").write_bytes(os.urandom(5000))
    (folder / "latest").symlink_to("rank-0")
    (folder / "config.json").symlink_to(outside)
    (folder / "nowhere").symlink_to(tmp_path / "gone")
    return folder


def test_a_copy_has_the_same_bytes_and_times_and_is_no_hard_link(tmp_path: Path) -> None:
    source, target = tmp_path / "a.pt", tmp_path / "new" / "a.pt"
    source.write_bytes(os.urandom(100_000))
    os.utime(source, (1_000_000_000, 1_000_000_000))
    copy_apart(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mtime == 1_000_000_000
    assert target.stat().st_ino != source.stat().st_ino and source.stat().st_nlink == 1


def test_what_is_written_to_a_copy_of_a_folder_never_reaches_the_source(
    tmp_path: Path, sharded: Path
) -> None:
    target = tmp_path / "copy"
    before = (sharded / "rank-0" / "weights.bin").read_bytes()
    copy_apart(sharded, target)
    assert (target / "latest" / "weights.bin").read_bytes() == before
    for path in [*target.rglob("*"), target / "latest" / "weights.bin"]:
        assert path.resolve().is_relative_to(target.resolve()), path
        if path.is_file():
            path.write_text("written by a trial")
    assert (sharded / "rank-0" / "weights.bin").read_bytes() == before
    assert (tmp_path / "shared.json").read_text() == "shared"
    assert not (target / "nowhere").is_symlink()


def test_a_folder_that_is_a_link_into_itself_ends(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "again").symlink_to(other)
    source = tmp_path / "source"
    source.mkdir()
    (source / "other").symlink_to(other)
    copy_apart(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "other").is_dir()


def test_without_room_it_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    source, target = tmp_path / "step-10", tmp_path / "copy"
    source.mkdir()
    (source / "a.json").write_text("{}")
    with (source / "weights.bin").open("wb") as file:
        try:
            file.truncate(1 << 42)  # without blocks: no disk is used
        except OSError as error:
            pytest.skip(f"this file system has no files of this size: {error}")
    if size_of(source) < os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize:
        pytest.skip("this disk has room for it")
    try:
        copy_apart(source, target)
    except NoRoom as error:
        assert "no room for a copy" in str(error) and "4 TiB" in str(error)
        assert not target.exists()
    else:
        pytest.skip("this file system shares blocks")


def test_what_is_left_out_is_not_copied_and_not_counted(tmp_path: Path, sharded: Path) -> None:
    def is_rank(path: Path) -> bool:
        return path.name.startswith("rank")

    assert size_of(sharded, is_rank) == len("shared")
    copy_apart(sharded, tmp_path / "copy", is_rank)
    assert not (tmp_path / "copy" / "rank-0").exists()
    remove_copies(tmp_path / "copy")
    assert not (tmp_path / "copy").exists() and (sharded / "rank-0").is_dir()
