"""The folder in memory of a live run: whose it is, what is copied, when it goes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rerail.records import Outcome
from rerail.store import RunFolder, RunWriter, agent_memory, bring_left_behind_home
from rerail.store.agent_files import AgentFiles

NewRun = Callable[..., RunWriter]
OK = Outcome("ok", "the command ended well", exit_code=0)


@pytest.fixture
def live(new_run: NewRun) -> Iterator[RunWriter]:
    """A run whose processes write into memory."""
    writer = new_run()
    if writer.keep_agent_in_memory() is None:
        writer.finish(OK, 1.0)
        pytest.skip("this machine has no memory file system with room for the agent")
    memory = memory_of(writer)
    yield writer
    with contextlib.suppress(OSError):
        writer.close()
    shutil.rmtree(memory, ignore_errors=True)


def memory_of(writer: RunWriter) -> Path:
    memory = agent_memory.find(writer.path)
    assert memory is not None
    return memory


def let_go(writer: RunWriter) -> None:
    """As the kernel does for a recorder that is killed."""
    writer.close()
    os.close(writer._memory_lock)
    writer._memory_lock = -1


def test_the_folder_is_private_and_has_a_bound(live: RunWriter) -> None:
    memory = memory_of(live)
    assert memory.stat().st_mode & 0o777 == 0o700
    (share,) = struct.unpack("=q", (memory / "share").read_bytes())
    status = os.statvfs(memory)
    assert 0 < share <= agent_memory.MOST_BYTES
    assert share <= status.f_blocks * status.f_frsize // agent_memory.PART


def test_a_file_in_memory_comes_before_its_copy(live: RunWriter) -> None:
    memory, copies = memory_of(live), live.path / "agent"
    (memory / "1-1.crash").write_bytes(b"new")
    (copies / "1-1.crash").write_bytes(b"old")
    (copies / "2-1.crash").write_bytes(b"alone")
    files = RunFolder(live.path).agent_files()
    found = {path.name: path.read_bytes() for path in files.glob("*.crash")}
    assert found == {"1-1.crash": b"new", "2-1.crash": b"alone"}
    assert (files / "1-1.crash", files / "2-1.crash") == (
        memory / "1-1.crash",
        copies / "2-1.crash",
    )


def test_what_changed_is_copied_and_what_says_nothing_is_not(live: RunWriter) -> None:
    memory, copies = memory_of(live), live.path / "agent"
    first = os.urandom(4096) + bytes(8192) + os.urandom(100)
    (memory / "1-1.box").write_bytes(first)
    for name in ("1-1.crash", "1-1.stacks", "1-1.boxes", "run me", "1-1.trackers.new"):
        (memory / name).touch()
    assert live.copy_agent_files() is False
    assert {path.name: path.read_bytes() for path in copies.iterdir()} == {"1-1.box": first}
    changed = first[:4096] + b"x" * 8192 + first[12288:]
    (memory / "1-1.box").write_bytes(changed)
    (copies / "7-7.box").write_bytes(b"of a process in another mount namespace")
    assert live.copy_agent_files() is True
    assert (copies / "1-1.box").read_bytes() == changed


def test_the_end_brings_everything_home(live: RunWriter) -> None:
    memory = memory_of(live)
    (memory / "1-1.box").write_bytes(b"box")
    live.finish(OK, 1.0)
    assert (live.path / "agent" / "1-1.box").read_bytes() == b"box"
    assert not memory.exists()
    assert RunFolder(live.path).info().outcome == OK and live.missing == []


def test_a_run_folder_that_was_removed_leaves_nothing_in_memory(live: RunWriter) -> None:
    memory = memory_of(live)
    (memory / "1-1.box").write_bytes(b"box")
    shutil.rmtree(live.path)
    live.finish(OK, 1.0)
    assert not memory.exists()


def test_what_does_not_fit_onto_the_disk_stays_readable_and_is_masked(
    live: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_of(live)
    live.masker.learn_environment({"API_TOKEN": "zx81-spectrum-9000"})
    (memory / "1-1.census").write_bytes(b"token zx81-spectrum-9000")

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(agent_memory, "_write_at", is_full)
    live.bring_agent_files_home()
    live.mask_agent_files()
    live.finish(OK, 1.0)
    assert "agent" in dict(live.missing)
    (census,) = RunFolder(live.path).agent_files().glob("*.census")
    assert census.parent == memory and b"spectrum" not in census.read_bytes()


def test_a_run_folder_cannot_name_a_place_of_its_choice(live: RunWriter, tmp_path: Path) -> None:
    """Not a folder of another run, of another user, that others may read, or behind a link."""
    memory = memory_of(live)
    copy = tmp_path / "elsewhere" / live.id
    shutil.copytree(live.path, copy)
    assert agent_memory.find(copy) is None, "it says that it belongs to another folder"
    memory.chmod(0o750)
    assert agent_memory.find(live.path) is None
    memory.chmod(0o700)
    aside = memory.with_name(f"{memory.name}-aside")
    memory.rename(aside)
    try:
        memory.symlink_to(aside)
        assert agent_memory.find(live.path) is None
        memory.unlink()
        if os.geteuid() == 0:
            memory.mkdir(mode=0o700)
            shutil.copy2(aside / "run", memory / "run")
            os.chown(memory, 65534, -1)
            assert agent_memory.find(live.path) is None
            shutil.rmtree(memory)
    finally:
        aside.rename(memory)
    assert agent_memory.find(live.path) == memory


def test_a_folder_that_is_there_already_is_not_taken(new_run: NewRun) -> None:
    writer = new_run()
    squatted = agent_memory.SHARED_MEMORY / f"rerail-{writer.id}"
    try:
        squatted.mkdir()
    except OSError:
        pytest.skip("there is no /dev/shm here")
    try:
        made = writer.keep_agent_in_memory()
        assert made != squatted and list(squatted.iterdir()) == []
    finally:
        squatted.rmdir()
        writer.finish(OK, 1.0)


def test_what_a_dead_recorder_left_is_brought_home_by_a_later_run(
    live: RunWriter, tmp_path: Path
) -> None:
    memory = memory_of(live)
    (memory / "1-1.box").write_bytes(b"box")
    bring_left_behind_home()
    assert memory.is_dir(), "its recorder holds it"
    let_go(live)
    live.update_info(recorder_pid=2**22 + 1)  # no such process
    bring_left_behind_home(tmp_path / "another store")
    assert memory.is_dir()
    bring_left_behind_home()
    assert not memory.exists()
    assert (live.path / "agent" / "1-1.box").read_bytes() == b"box"


def test_a_run_whose_command_goes_on_keeps_its_boxes_in_memory(live: RunWriter) -> None:
    memory = memory_of(live)
    let_go(live)
    live.update_info(root_pid=os.getpid(), recorder_pid=2**22 + 1)
    live.event("process-started", pid=os.getpid(), start=0, ppid=1, role="main", name="x")
    live.close()
    bring_left_behind_home()
    assert memory.is_dir()


def test_of_a_run_that_is_gone_the_memory_goes_after_a_day(live: RunWriter) -> None:
    memory = memory_of(live)
    let_go(live)
    shutil.rmtree(live.path)
    bring_left_behind_home()
    assert memory.is_dir(), "perhaps its folder is only not seen from here"
    os.utime(memory, (0, 0))
    bring_left_behind_home()
    assert not memory.exists()


def test_a_recorder_whose_memory_is_gone_reads_the_copies(live: RunWriter) -> None:
    """The session of a user whom logind logs out takes his files in memory with it."""
    files = live.agent_dir
    (memory_of(live) / "1-1.box").write_bytes(b"box")
    live.copy_agent_files()
    shutil.rmtree(memory_of(live))
    assert isinstance(files, AgentFiles)
    assert [path.read_bytes() for path in files.glob("*.box")] == [b"box"]
    assert (files / "1-1.box").read_bytes() == b"box"
