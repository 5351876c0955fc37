"""Where a process makes its files: in memory while there is room, else in the run folder."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rerail.agent import inject, native_library
from rerail.store.blackbox import read_all_boxes

FORKS = """
import os
if os.fork() == 0:
    os._exit(0)
os.wait()
"""
PLENTY = 16 << 20


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    if native_library() is None:
        pytest.skip("the agent's C library was not built here")
    folder = tmp_path / "rün agent"
    folder.mkdir()
    return folder


def memory_of(tmp_path: Path, share: int) -> Path:
    folder = tmp_path / "in memory"
    folder.mkdir(mode=0o700)
    (folder / "share").write_bytes(struct.pack("=q", share))
    return folder


def run(run_folder: Path, memory: Path, code: str = "pass") -> None:
    command = [sys.executable, "-c", code]
    variables = inject(run_folder, os.environ, command, 0, memory=memory).variables
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def endings(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.glob("*-*"))


def left(memory: Path) -> int:
    (share,) = struct.unpack("=q", (memory / "share").read_bytes())
    assert isinstance(share, int)
    return share


def test_files_are_made_in_memory(run_folder: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path, PLENTY)
    run(run_folder, memory, FORKS)
    assert endings(run_folder) == []
    assert endings(memory) == [".box", ".boxes", ".crash", ".stacks"]
    assert len(read_all_boxes(memory, 0)) == 2


def test_what_is_taken_is_counted_and_the_reserve_of_a_crash_is_given_back(
    run_folder: Path,
) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm here; other file systems keep what is behind the end")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        memory = memory_of(Path(place), PLENTY)
        run(run_folder, memory)
        (box,), (crash,) = memory.glob("*.box"), memory.glob("*.crash")
        taken = PLENTY - left(memory)
        assert box.stat().st_size <= taken <= 2 * box.stat().st_size
        assert crash.stat().st_blocks == 0


@pytest.mark.parametrize("share", [0, 40_000])
def test_past_the_share_files_are_made_in_the_run_folder(
    run_folder: Path, tmp_path: Path, share: int
) -> None:
    memory = memory_of(tmp_path, share)
    run(run_folder, memory, FORKS)
    everywhere = [*endings(run_folder), *endings(memory)]
    assert sorted(everywhere) == [".box", ".boxes", ".crash", ".stacks"]
    assert endings(memory) == ([".box"] if share else [])
    assert left(memory) >= 0


@pytest.mark.parametrize("what", ["gone", "link", "file", "no share", "empty share"])
def test_a_folder_that_is_not_as_the_recorder_made_it_is_not_used(
    run_folder: Path, tmp_path: Path, what: str
) -> None:
    """Another mount namespace has another /dev/shm, or none."""
    memory = memory_of(tmp_path, PLENTY)
    if what == "gone":
        memory = tmp_path / "not here"
    elif what == "link":
        (tmp_path / "link").symlink_to(memory)
        memory = tmp_path / "link"
    elif what == "file":
        memory = memory / "share"
    elif what == "no share":
        (memory / "share").unlink()
    else:
        (memory / "share").write_bytes(b"")
    run(run_folder, memory)
    assert endings(run_folder) == [".box", ".crash", ".stacks"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_not_used(run_folder: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path, PLENTY)
    os.chown(memory, 65534, -1)
    run(run_folder, memory)
    assert ".box" in endings(run_folder) and endings(memory) == []


def test_a_run_inside_a_run_does_not_write_into_the_outer_one(tmp_path: Path) -> None:
    outer = {"RERAIL_AGENT_MEMORY": "/dev/shm/rerail-of-the-outer-run"}
    assert inject(tmp_path, outer, ["x"], 0).variables["RERAIL_AGENT_MEMORY"] == ""
    assert "RERAIL_AGENT_MEMORY" not in inject(tmp_path, {}, ["x"], 0).variables
