"""Which checkpoint trials begin at, and every reason to begin anew instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.checkpoints import checked_resume
from rerail.experiments.trials.failure import Failure
from rerail.experiments.trials.from_checkpoint import CheckpointStart, Resuming, scratch_of
from rerail.recorder import RunOptions, record
from rerail.store import RunFolder, Store

Choosing = Callable[..., tuple[CheckpointStart, list[str]]]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has just ended; that it is said to have failed is up to each test."""
    store = Store(tmp_path_factory.mktemp("store"))
    done = record([sys.executable, "-c", "pass"], store, RunOptions(is_quiet=True))
    return RunFolder(done.folder)


def failure(cause: str | None, run: RunFolder) -> Failure:
    return Failure(cause, "signal", "SIGSEGV", None, None, "it was killed", run.id)


@pytest.fixture
def choosing(tmp_path: Path) -> Choosing:
    (tmp_path / "out").mkdir()

    def make(resume: str = "--resume {checkpoint}") -> tuple[CheckpointStart, list[str]]:
        command = ["train", "--out", "out"]
        arguments = checked_resume(command, {}, "out/*.bin", resume)
        assert arguments is not None
        said: list[str] = []
        scratch = scratch_of(Store(tmp_path / "home"), "key")
        resuming = Resuming("out/*.bin", arguments)
        made = CheckpointStart(command, str(tmp_path), {}, scratch, resuming, said.append)
        return made, said

    return make


def checkpoint(path: Path, run: RunFolder, after_seconds: float = 0.001) -> None:
    path.write_bytes(b"weights of a format that nobody knows")
    written = run.info().started_unix + after_seconds
    os.utime(path, (written, written))


def test_the_newest_of_the_run_that_failed_is_taken(
    failed: RunFolder, choosing: Choosing, tmp_path: Path
) -> None:
    made, _ = choosing()
    checkpoint(tmp_path / "out" / "a.bin", failed)
    checkpoint(tmp_path / "out" / "b.bin", failed, after_seconds=3600.0)  # by a later run
    start = made.choose(failed, failure("native-segfault", failed), 100.0, "batches")
    assert start.state == "testing" and start.checkpoint == "out/a.bin"
    place = made.place()
    assert place.folder is not None and place.settings["resumed_from"] == "out/a.bin"
    copy = Path(place.settings["copy"])
    assert place.command[-2:] == ("--resume", str(copy)) and copy.read_bytes()
    copy.write_text("written by a trial")
    assert (tmp_path / "out" / "a.bin").read_bytes().startswith(b"weights")
    made.close()
    assert not (tmp_path / "home" / "scratch").exists()


@pytest.mark.parametrize("cause", ["host-memory-leak", "gpu-fragmentation", "fd-exhausted"])
def test_what_builds_up_begins_anew_without_a_test(
    cause: str, failed: RunFolder, choosing: Choosing, tmp_path: Path
) -> None:
    made, said = choosing()
    checkpoint(tmp_path / "out" / "a.bin", failed)
    start = made.choose(failed, failure(cause, failed), 100.0, "batches")
    assert start.state == "dropped"
    assert said[-1] == f"trials begin anew: {cause} builds up from the very beginning of a process"
    place = made.place()  # its outputs are its own all the same
    assert "resumed_from" not in place.settings and place.command[:2] == ("train", "--out")
    assert not Path(place.command[2]).is_relative_to(tmp_path / "out")
    assert load_catalogue().policy_of("native-segfault").builds_up is False


def test_one_from_before_the_run_and_none_at_all(
    failed: RunFolder, choosing: Choosing, tmp_path: Path
) -> None:
    made, _ = choosing()
    start = made.choose(failed, failure(None, failed), 100.0, "batches")
    assert "no checkpoint for out/*.bin: there is none" in start.why
    checkpoint(tmp_path / "out" / "a.bin", failed, after_seconds=-100.0)
    start = made.choose(failed, failure(None, failed), 100.0, "batches")
    assert "was written before the run that failed began" in start.why


def test_without_room_for_a_copy_trials_begin_anew(
    failed: RunFolder, choosing: Choosing, tmp_path: Path
) -> None:
    made, said = choosing()
    path = tmp_path / "out" / "a.bin"
    with path.open("wb") as file:
        file.write(b"x" * 4096)
        try:
            file.seek(1 << 42)  # without blocks: no disk is used
            file.write(b"end")
        except OSError as error:
            pytest.skip(f"this file system has no files of this size: {error}")
    checkpointed = failed.info().started_unix + 0.001
    os.utime(path, (checkpointed, checkpointed))
    usage = os.statvfs(tmp_path)
    if usage.f_bavail * usage.f_frsize > 1 << 42:
        pytest.skip("this disk has room for it")
    start = made.choose(failed, failure(None, failed), 100.0, "batches")
    if start.state == "testing":
        pytest.skip("this file system shares blocks")
    assert "there is no room for a copy" in start.why and "4 TiB" in start.why
    assert said[-1].startswith("trials begin anew: there is no room")


def test_a_checkpoint_that_has_changed_is_another_one(
    failed: RunFolder, choosing: Choosing, tmp_path: Path
) -> None:
    made, _ = choosing()
    checkpoint(tmp_path / "out" / "a.bin", failed)
    start = made.choose(failed, failure(None, failed), 100.0, "batches")
    made.close()
    again, _ = choosing()
    assert again.take_up(start, failed).state == "testing"
    again.close()
    (tmp_path / "out" / "a.bin").write_bytes(b"of another run")
    late, said = choosing()
    assert late.take_up(start, failed).state == "dropped"
    assert said[-1] == "trials begin anew: out/a.bin is not the one of before"


def test_what_a_killed_experiment_left_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    mine = scratch_of(store, "key")
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    left = mine.with_name(f"{mine.name.rpartition('-')[0]}-{pid}")
    living = mine.with_name(f"{mine.name.rpartition('-')[0]}-{os.getppid()}")
    elsewhere = mine.with_name(f"key-0-{pid}")  # of another machine that shares the store
    for folder in (left, living, elsewhere):
        folder.mkdir(parents=True)
    scratch_of(store, "other")
    assert not left.exists() and living.exists() and elsewhere.exists()
