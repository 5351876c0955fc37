"""Records put together by hand for the tests of the run readers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.records import (
    BlackBox,
    Crash,
    NativeFrame,
    Outcome,
    ProcessRecord,
    ProcessVitals,
    PythonFrame,
    RunInfo,
    StepPoint,
    ThreadStack,
    VitalsRow,
)

MIB = 1 << 20


def info(outcome: Outcome | None = None, **changes: Any) -> RunInfo:
    base = RunInfo(
        schema=1,
        id="20260101-000000-abcd",
        command=["python", "train.py"],
        cwd="/data/job",
        started_unix=1.0e9,
        host="elsewhere",
        rerail_version="0",
        recorder_pid=1,
        root_pid=100,
        has_terminal=False,
        state="ended",
        elapsed_seconds=60.0,
        outcome=outcome,
    )
    return replace(base, **changes)


def process(pid: int = 100, role: str = "main", **changes: Any) -> ProcessRecord:
    base = ProcessRecord(
        pid=pid,
        start_ticks=7,
        parent_pid=None if role == "main" else 100,
        role=role,
        name="python",
        command=["python", "train.py"],
        started_t_seconds=0.0,
        ended_t_seconds=60.0,
    )
    return replace(base, **changes)


def box(pid: int = 100, **changes: Any) -> BlackBox:
    base = BlackBox(
        pid=pid,
        start_ticks=7,
        parent_pid=1,
        python_version="3.11.7",
        argv=["train.py"],
        started_t_seconds=0.1,
        said_goodbye=False,
        handler_installed=True,
    )
    return replace(base, **changes)


def crash(
    pid: int = 100, native: list[tuple[str, str | None]] | None = None, **changes: Any
) -> Crash:
    frames = [
        NativeFrame(0x7F0000000000 + i, f"/usr/lib/{library}", 0x10 * i, function)
        for i, (library, function) in enumerate(native or [("libfast.so", "scan")])
    ]
    stack = ThreadStack(pid, "python", frames, [PythonFrame("train.py", 12, "main")], True)
    base = Crash(
        pid=pid,
        start_ticks=7,
        thread_id=pid,
        thread_name="python",
        is_main_thread=True,
        signal="SIGSEGV",
        code="SEGV_MAPERR",
        address=0x7F1234567000,
        sender_pid=None,
        t_seconds=59.9,
        threads=[stack],
    )
    return replace(base, **changes)


def row(t: float, machine: dict[str, float] | None = None, **processes: ProcessVitals) -> VitalsRow:
    """`p100=ProcessVitals(...)` is process 100-7."""
    by_key = {f"{name[1:]}-7": vitals for name, vitals in processes.items()}
    tree = ProcessVitals(
        rss_anon_bytes=sum(v.rss_anon_bytes for v in by_key.values()),
        rss_file_bytes=sum(v.rss_file_bytes for v in by_key.values()),
        rss_shared_bytes=sum(v.rss_shared_bytes for v in by_key.values()),
        threads=sum(v.threads for v in by_key.values()),
        fds=sum(v.fds for v in by_key.values()),
    )
    return VitalsRow(t, 0.0, tree, len(by_key), by_key, machine or {})


def steps(count: int, every_seconds: float = 0.5, loss: float = 1.0) -> list[StepPoint]:
    return [StepPoint(i, i * every_seconds, loss) for i in range(count)]


def recorded(outcome: Outcome | None = None, **parts: Any) -> RecordedRun:
    parts.setdefault("processes", [process()])
    return RecordedRun(info=parts.pop("info", info(outcome)), **parts)
