"""One record per process, put together from the events that mention it.

In: events in order. Out: ProcessRecord in order of appearance. An ending without a beginning (the
first lines were lost) still makes a record: a death must not disappear.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rerail.records import Event, ProcessRecord


def assemble_processes(events: Iterable[Event]) -> list[ProcessRecord]:
    found: dict[str, ProcessRecord] = {}
    latest: dict[int, str] = {}  # the process that has a pid now
    for event in events:
        if not event.kind.startswith("process-"):
            continue
        pid, start = _whole(event.data.get("pid")), _whole(event.data.get("start")) or 0
        if pid is None:
            continue
        # Where the start is not known: a guardian sees only the pid of an ending.
        key = f"{pid}-{start}" if start else latest.get(pid, f"{pid}-0")
        record = found.get(key) or _begin(event, pid, start)
        if event.kind == "process-changed":
            record = _change(record, event.data)
        elif event.kind == "process-ended":
            record = _end(record, event)
        found[key] = record
        if record.ended_t_seconds is None:
            latest[pid] = key
        elif latest.get(pid) == key:
            del latest[pid]
    return list(found.values())


def _begin(event: Event, pid: int, start: int) -> ProcessRecord:
    data = event.data
    return ProcessRecord(
        pid=pid,
        start_ticks=start,
        parent_pid=_whole(data.get("ppid")),
        role=_text(data.get("role"), "child"),
        name=_text(data.get("name"), ""),
        command=_texts(data.get("command")),
        started_t_seconds=event.t_seconds,
        rank=_whole(data.get("rank")),
    )


def _change(record: ProcessRecord, data: dict[str, Any]) -> ProcessRecord:
    return replace(
        record,
        name=_text(data.get("name"), record.name),
        role=_text(data.get("role"), record.role),
        command=_texts(data["command"]) if "command" in data else record.command,
        parent_pid=_whole(data.get("ppid", record.parent_pid)),
        rank=_whole(data.get("rank", record.rank)),
    )


def _end(record: ProcessRecord, event: Event) -> ProcessRecord:
    data = event.data
    signal = data.get("signal")
    source = data.get("source")
    return replace(
        record,
        ended_t_seconds=event.t_seconds,
        exit_code=_whole(data.get("exit_code")),
        signal=signal if isinstance(signal, str) else None,
        dumped_core=data.get("core") is True,
        ending_source=source if isinstance(source, str) else None,
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) else otherwise


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
