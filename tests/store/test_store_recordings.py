"""Recordings of every schema version are read for ever."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from test_store_folder import read_everything

from rerail.cli import main
from rerail.diagnosis import explain_run
from rerail.errors import RerailError
from rerail.records import ProcessRecord
from rerail.store import RunFolder

RECORDINGS = Path(__file__).parent.parent / "recordings"
SCHEMA_1 = RECORDINGS / "schema-1"
SEGFAULT = SCHEMA_1 / "segfault"


@pytest.mark.parametrize(
    "path", sorted(p.parent for p in RECORDINGS.glob("schema-*/*/run.json")), ids=lambda p: p.name
)
def test_every_recording_reads(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(path)
    read_everything(folder)
    assert folder.boxes()
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "ended"


def test_what_the_segfault_of_schema_1_tells() -> None:
    folder = RunFolder(SEGFAULT)
    info = folder.info()
    assert info.command == ["/usr/bin/python3", "train.py"]
    assert info.outcome is not None
    assert (info.outcome.kind, info.outcome.signal) == ("signal", "SIGSEGV")
    roles = {process.role: process for process in folder.processes()}
    assert roles["main"].signal == "SIGSEGV"
    assert roles["multiprocessing"].exit_code == 0
    assert [line.text for line in folder.output()][-1] == b"step 5 loss 0.2"
    (box,) = folder.boxes()
    assert box.pid == roles["main"].pid
    assert box.argv[-1].endswith("train.py")
    assert not box.said_goodbye
    (crash,) = folder.crashes()
    assert (crash.signal, crash.code, crash.address) == ("SIGSEGV", "SEGV_MAPERR", 0)
    assert crash.is_main_thread
    assert "string_at" in [frame.function for frame in crash.threads[0].python]
    assert any(frame.library for frame in crash.threads[0].native)
    (libraries,) = folder.libraries().values()
    assert any("libc.so" in library.path for library in libraries)
    assert list(folder.vitals())
    assert folder.recent_vitals()[-1].tree.rss_bytes > 0
    assert "segfault" in folder.after().kernel_lines[0]
    assert folder.surroundings()["interpreter"]["version"] == "3.11"
    assert folder.diagnosis()["causes"][0]["id"] == "native-segfault"


MIB = 1 << 20


def first_cause(folder: RunFolder) -> str | None:
    """Explained anew, by the catalogue as it is now."""
    causes = explain_run(folder).to_json()["causes"]
    return causes[0]["id"] if causes else None


def last_line(folder: RunFolder) -> bytes:
    return [line.text for line in folder.output()][-1]


def ranks_and_roles(folder: RunFolder) -> dict[tuple[str, int | None], ProcessRecord]:
    return {(process.role, process.rank): process for process in folder.processes()}


def test_the_hang_tells_who_waits_for_what() -> None:
    folder = RunFolder(SCHEMA_1 / "hang")
    outcome = folder.info().outcome
    assert outcome is not None and (outcome.kind, outcome.signal) == ("hang", "SIGTERM")
    assert last_line(folder) == b"step 5 loss 0.2"
    (stall,) = folder.stalls()
    assert stall.silent_seconds >= stall.threshold_seconds == 3.0
    functions = {
        key: [frame.function for thread in threads for frame in thread.python]
        for key, threads in stall.stacks.items()
    }
    main = next(process for process in folder.processes() if process.role == "main")
    assert "load_in_worker" in functions.pop(main.key)
    (worker,) = functions.values()
    assert worker[0] == "load"
    # The first worker has ended: its memory is not in the tree, what it used of the CPU is.
    last = folder.recent_vitals()[-1]
    living = last.processes.values()
    assert last.process_count == len(living) == 2
    assert last.tree.rss_bytes == sum(vitals.rss_bytes for vitals in living)
    assert last.tree.cpu_seconds >= sum(vitals.cpu_seconds for vitals in living)
    assert first_cause(folder) == "fork-after-threads"


def test_the_oom_kill_tells_the_limit_that_was_hit() -> None:
    folder = RunFolder(SCHEMA_1 / "oom-kill")
    outcome = folder.info().outcome
    assert outcome is not None and (outcome.kind, outcome.signal) == ("signal", "SIGKILL")
    after = folder.after()
    (limit,) = [limit for limit in after.memory_limits if limit.oom_kills]
    assert limit.limit_bytes == limit.peak_bytes == 96 * MIB
    assert any("out of memory: Killed process" in line for line in after.kernel_lines)
    rows = folder.recent_vitals()
    assert rows[0].tree.rss_bytes < 30 * MIB < 80 * MIB < max(r.tree.rss_bytes for r in rows)
    assert max(row.machine.get("cgroup_usage_bytes", 0) for row in rows) > 90 * MIB
    near = [event for event in folder.events() if event.kind == "limit-near"]
    assert [event.data["what"] for event in near] == ["memory"]
    assert first_cause(folder) == "host-oom"


def test_the_death_of_a_worker_is_told_from_that_of_the_loop() -> None:
    folder = RunFolder(SCHEMA_1 / "worker-death")
    outcome = folder.info().outcome
    assert outcome is not None and (outcome.kind, outcome.exit_code) == ("exit", 1)
    found = ranks_and_roles(folder)
    worker, main = found["multiprocessing", None], found["main", None]
    assert (worker.signal, main.exit_code) == ("SIGSEGV", 1)
    assert worker.ended_t_seconds is not None and main.ended_t_seconds is not None
    assert worker.ended_t_seconds < main.ended_t_seconds
    (crash,) = folder.crashes()
    assert (crash.pid, crash.signal, crash.address) == (worker.pid, "SIGSEGV", 0)
    assert "load" in [frame.function for frame in crash.threads[0].python]
    assert first_cause(folder) == "native-segfault"


def test_of_two_ranks_the_one_that_failed_first_is_named() -> None:
    folder = RunFolder(SCHEMA_1 / "two-ranks")
    outcome = folder.info().outcome
    assert outcome is not None and (outcome.kind, outcome.exit_code) == ("exit", 1)
    ranks = {process.rank: process for process in folder.processes() if process.rank is not None}
    assert sorted(ranks) == [0, 1]
    ends = {rank: process.ended_t_seconds or 0.0 for rank, process in ranks.items()}
    assert 0.0 < ends[1] <= ends[0]
    assert {box.rank for box in folder.boxes()} >= {0, 1}
    (box,) = [box for box in folder.boxes() if box.rank == 1]
    assert (box.exception_type, box.pid) == ("ValueError", ranks[1].pid)
    document = explain_run(folder).to_json()
    assert document["causes"][0]["id"] == "index-out-of-range"
    assert "label 7 is out of range" in json.dumps(document["causes"][0])


def test_a_healthy_run_has_no_cause() -> None:
    folder = RunFolder(SCHEMA_1 / "healthy")
    outcome = folder.info().outcome
    assert outcome is not None and outcome.kind == "ok"
    assert last_line(folder) == b"saved checkpoint-15.pkl"
    assert {process.exit_code for process in folder.processes() if process.role == "main"} == {0}
    assert all(box.said_goodbye for box in folder.boxes() if box.pid == folder.info().root_pid)
    assert not folder.stalls() and not folder.crashes()
    history = list(folder.vitals())
    cpu = [row.tree.cpu_seconds for row in history]
    assert len(history) >= 5 and cpu == sorted(cpu)
    assert first_cause(folder) is None


def test_recordings_are_small_and_name_no_machine() -> None:
    for run in sorted(SCHEMA_1.glob("*/run.json")):
        files = [path for path in run.parent.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 200_000, run.parent.name
        assert RunFolder(run.parent).info().host == "host"
        for path in files:
            assert not re.search(rb"/(?:home|root|work|Users)/", path.read_bytes()), path


def test_raw_crash_files_are_read_where_nobody_has_named_functions(tmp_path: Path) -> None:
    shutil.copytree(SEGFAULT, tmp_path / "run")
    (tmp_path / "run" / "crashes.json").unlink()
    (crash,) = RunFolder(tmp_path / "run").crashes()
    assert crash.signal == "SIGSEGV"
    assert "string_at" in [frame.function for frame in crash.threads[0].python]


@pytest.mark.thorough
def test_what_the_agent_wrote_may_be_cut_anywhere(tmp_path: Path) -> None:
    shutil.copytree(SEGFAULT, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    (folder.path / "crashes.json").unlink()
    for path in sorted((folder.path / "agent").iterdir()):
        size = path.stat().st_size
        for cut in sorted({*range(0, size, 61), *range(min(size, 300)), size - 1}, reverse=True):
            os.truncate(path, cut)
            try:
                folder.boxes()
                folder.crashes()
            except RerailError as error:
                assert path.name in error.message
