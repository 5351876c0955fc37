"""Copies of black boxes on the disk while the run is live."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from run_driver import wait_until

from rerail.recorder.run.box_copies import BoxCopies
from rerail.recorder.run_record import RunRecord
from rerail.records import Outcome
from rerail.store import RunWriter, Store


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    writer = Store(tmp_path / ".rerail").create_run(["x"], tmp_path, {}, has_terminal=False)
    if writer.keep_agent_in_memory() is None:
        writer.finish(Outcome("ok", "", exit_code=0), 0.0)
        pytest.skip("this machine has no memory file system with room for the agent")
    return writer


def test_copies_are_made_aside_and_processes_that_write_elsewhere_are_noticed(
    writer: RunWriter,
) -> None:
    helpers: set[int] = set()
    copies = BoxCopies(RunRecord(writer), helpers)
    memory, on_disk = writer.agent_dir.memory, writer.path / "agent"
    assert memory is not None
    try:
        (memory / "1-1.box").write_bytes(b"box")
        (on_disk / "2-2.box").write_bytes(b"of a process in another mount namespace")
        assert [path.name for path in writer.agent_dir.glob("*.box")] == ["1-1.box"]
        copies.look()
        assert helpers and os.getpid() not in helpers

        def is_noticed() -> bool:
            copies.look()
            return not writer.agent_dir.is_in_memory_alone

        wait_until(is_noticed, "the processes that write into the run folder")
        assert [path.name for path in writer.agent_dir.glob("*.box")] == ["1-1.box", "2-2.box"]
        assert (on_disk / "1-1.box").read_bytes() == b"box"
        copies.finish()
        copies.look()
        assert helpers == set()
        writer.finish(Outcome("ok", "", exit_code=0), 0.0)
        assert not memory.exists()
    finally:
        shutil.rmtree(memory, ignore_errors=True)
