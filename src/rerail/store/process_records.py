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
    assembly = ProcessAssembly()
    assembly.add(events)
    return assembly.records()


class ProcessAssembly:
    """The same from events that come in several goes; `most`: of those that ended well, this many
    are kept."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._found: dict[str, ProcessRecord] = {}
        self._latest: dict[int, str] = {}  # the process that has a pid now

    def records(self) -> list[ProcessRecord]:
        return list(self._found.values())

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind.startswith("process-"):
                self._add(event)
        if self._most is not None and len(self._found) > self._most:
            self._forget()

    def _add(self, event: Event) -> None:
        latest = self._latest
        pid, start = _whole(event.data.get("pid")), _whole(event.data.get("start")) or 0
        if pid is None:
            return
        # Where the start is not known: a guardian sees only the pid of an ending.
        key = f"{pid}-{start}" if start else latest.get(pid, f"{pid}-0")
        record = self._found.get(key) or _begin(event, pid, start)
        if event.kind == "process-changed":
            record = _change(record, event.data)
        elif event.kind == "process-ended":
            record = _end(record, event)
        self._found[key] = record
        if record.ended_t_seconds is None:
            latest[pid] = key
        elif latest.get(pid) == key:
            del latest[pid]

    def _forget(self) -> None:
        """The oldest that ended well go first, then the oldest that ended badly."""
        assert self._most is not None
        over = [each for each in self._found.values() if each.ended_t_seconds is not None]
        over.sort(key=lambda each: each.signal is not None or bool(each.exit_code))
        for each in over[: len(self._found) - self._most]:
            self._found.pop(each.key, None)


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
        world_size=_whole(data.get("world_size")),
        node=_whole(data.get("node")),
    )


def _change(record: ProcessRecord, data: dict[str, Any]) -> ProcessRecord:
    return replace(
        record,
        name=_text(data.get("name"), record.name),
        role=_text(data.get("role"), record.role),
        command=_texts(data["command"]) if "command" in data else record.command,
        parent_pid=_whole(data.get("ppid", record.parent_pid)),
        rank=_whole(data.get("rank", record.rank)),
        world_size=_whole(data.get("world_size", record.world_size)),
        node=_whole(data.get("node", record.node)),
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
