"""What Ray's own logs on a node say of one of its workers.

In: the `logs` folder of the node's Ray session, the worker's id and process id. Out: `RayWords`.
`parse_*` are functions of text. Promises: only the ends of files are read, few files of each kind,
and what is not there or has another form is left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.platform.patterns import linear
from rerail.store import open_regular

MOST_LINES = 120  # of what the worker printed, which Ray keeps in a file of its own
_TAIL_BYTES = 256 * 1024
_HEAD_BYTES = 4096
_MOST_RAYLETS = 16  # several on one machine number their logs: raylet.1.out
_MOST_DETAIL = 600

_ACTOR = linear(r"(?m)^:actor_name:(.{1,200})$")
_HEADER = linear(r"^:(?:job_id|actor_name|task_name):")
_DISCONNECT = linear(
    r"Disconnect, exit_type=(?P<type>[A-Z_]{1,60}), exit_detail=(?P<detail>[^\n]*)"
)
_REST = ", has creation_task_exception"
_MEMORY = "Memory on the node ("
_USED = linear(r"was (?P<used>[\d.]+ ?[A-Z]?B)(?: used)? / (?P<limit>[\d.]+ ?[A-Z]?B)")
_HELD = linear(r"actual memory used=(?P<held>[\d.]+ ?[A-Z]?B)")


@dataclass
class RayWords:
    actor: str | None = None
    exit_type: str | None = None  # as Ray calls it: USER_ERROR, INTENDED_SYSTEM_EXIT …
    exit_detail: str | None = None
    memory: str | None = None  # why Ray's memory monitor killed it
    lines: list[str] = field(default_factory=list)  # the last that the worker printed

    def to_json(self, pid: int) -> dict[str, Any]:
        told = {
            "actor": self.actor,
            "exit_type": self.exit_type,
            "exit_detail": self.exit_detail,
            "memory": self.memory,
            "said": self.lines or None,
        }
        return {"pid": pid, **{name: value for name, value in told.items() if value is not None}}


def said_of_worker(logs: Path, worker: str, pid: int) -> RayWords:
    words = RayWords()
    for path in sorted(logs.glob(f"worker-{worker or '*'}-*-{pid}.err"))[:1]:
        text = _tail(path)
        words.lines = parse_printed(text)
        words.actor = parse_actor(_head(path) or text)
    for path in sorted(logs.glob(f"python-core-worker-{worker or '*'}_{pid}.log"))[:1]:
        ended = parse_disconnect(_tail(path))
        if ended is not None:
            words.exit_type, words.exit_detail = ended
    for path in sorted(logs.glob("raylet*.out"))[:_MOST_RAYLETS]:
        words.memory = words.memory or parse_memory_kill(_tail(path), worker, pid)
    return words


def parse_actor(text: str) -> str | None:
    found = _ACTOR.search(text)
    return found[1].strip() if found else None


def parse_printed(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not _HEADER.search(line)]
    return lines[-MOST_LINES:]


def parse_disconnect(text: str) -> tuple[str, str] | None:
    """What the worker told the node's raylet when it left by itself; the last counts."""
    all_of_them = list(_DISCONNECT.finditer(text))
    if not all_of_them:
        return None
    found = all_of_them[-1]
    detail = found["detail"].partition(_REST)[0].strip()
    return found["type"], detail[:_MOST_DETAIL]


def parse_memory_kill(text: str, worker: str, pid: int) -> str | None:
    """Why the node's memory monitor chose this worker, in a sentence; None if it did not."""
    for part in text.split(_MEMORY)[1:]:
        chosen = _line_about(part.splitlines(), worker, pid)
        used = _USED.search(part)
        if chosen is None or used is None:
            continue
        held = _HELD.search(chosen)
        share = f", this worker {held['held']} of it" if held else ""
        return f"the node used {used['used']} of its {used['limit']}{share}"
    return None


def _line_about(lines: Sequence[str], worker: str, pid: int) -> str | None:
    mine = linear(rf"\bpid={pid}\b")
    for line in lines:
        is_choice = "elected to kill" in line or "killed this worker" in line
        if is_choice and (mine.search(line) or (worker and worker in line)):
            return line
    return None


def _head(path: Path) -> str:
    return _read(path, from_end=False, most=_HEAD_BYTES)


def _tail(path: Path) -> str:
    return _read(path, from_end=True, most=_TAIL_BYTES)


def _read(path: Path, *, from_end: bool, most: int) -> str:
    try:
        with open_regular(path) as file:
            if from_end:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - most))
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
