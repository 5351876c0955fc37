"""A quick look at every log of a job of many ranks.

In: logs that can be opened. Out: one small `RankRecord` per file: whose it is, its last step, the
last collective it waited in, whether it ended with words of its own, with an echo of somebody
else, or without a word, and whom it names. Only the last TAIL_BYTES of a file are looked at line
by line, from the end back to the last progress: what a rank survived is no failure. Promises:
linear in the number of files, one file at a time in memory, on two cores where the job is large
and forking is safe.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from rerail.evidence.text.rank_names import named_for
from rerail.evidence.text.rank_streams import Streams, split_streams
from rerail.evidence.text.rank_words import (
    Shape,
    Shapes,
    ranks_in,
    statements_of,
    stream_rank,
    text_of,
)
from rerail.platform.deadline import Deadline
from rerail.platform.printed_progress import read_line

HEAD_BYTES = 6 << 10
TAIL_BYTES = 128 << 10
MERGED_BYTES = 1 << 20  # of a log that is no rank's: several may have written into it
MOST_LINES = 1500  # after the last progress
MOST_KEPT = 24  # statements of one kind in a record
FORKS_FROM = 256  # files; for fewer, starting processes costs more than it saves


class OpenableLog(Protocol):
    @property
    def name(self) -> str: ...

    def open(self, mode: str = "rb") -> BinaryIO: ...


@dataclass(frozen=True)
class TextLog:
    """Numbered lines in hand, to be looked at as a log."""

    name: str
    lines: list[tuple[int, str]]

    def open(self, mode: str = "rb") -> BinaryIO:
        text = "\n".join(line for _, line in self.lines)
        return io.BytesIO(text.encode("utf-8", "replace"))


@dataclass
class RankRecord:
    """What one file says of its rank, and of others."""

    at: int  # position of its file
    name: str
    is_rank: bool = False
    rank: int | None = None
    host: str = ""
    local: int | None = None
    pid: int | None = None
    ip: str = ""
    step: int | None = None
    is_missing: bool = False
    own_text: str = ""  # of its own first failure
    is_echo: bool = False
    is_finished: bool = False
    waits: dict[str, str] | None = None  # in which collective
    enqueued: int | None = None
    completed: int | None = None
    world: int = 0
    accused: list[int] = field(default_factory=list)
    says_gone: bool = False  # of those: they are gone, not late
    peers: list[str] = field(default_factory=list)  # hosts or addresses that it lost
    said: list[tuple[str, dict[str, str]]] = field(default_factory=list)  # of launchers, kernels

    @property
    def has_words(self) -> bool:
        return bool(self.own_text or self.is_echo or self.waits or self.enqueued is not None)


def survey(logs: Sequence[OpenableLog], deadline: Deadline) -> list[RankRecord]:
    """One record for each log that could be looked at in time."""
    processes = min(2, os.cpu_count() or 1)
    may_fork = (
        len(logs) >= FORKS_FROM
        and processes > 1
        and hasattr(os, "fork")
        and threading.active_count() == 1
        and Path(str(logs[0])).is_file()  # members of an archive share its one position
        and Path(str(logs[-1])).is_file()
    )
    records = _forked(logs, deadline) if may_fork else None
    if records is None:
        records = _look_at(logs, range(len(logs)), deadline)
    if len({record.at for record in records}) < len(logs):
        deadline.skips(f"some of {len(logs):,} logs")
    return records


def _look_at(
    logs: Sequence[OpenableLog], which: Sequence[int], deadline: Deadline
) -> list[RankRecord]:
    shapes = Shapes()
    records = []
    for at in which:
        if deadline.is_over:
            break
        try:
            with logs[at].open("rb") as file:
                records += _records(at, logs[at].name, file, shapes)
        except OSError:
            continue  # it was there a moment ago; the others are not
    return records


def _forked(logs: Sequence[OpenableLog], deadline: Deadline) -> list[RankRecord] | None:
    """The second half in a child; None if there could be none."""
    import pickle

    middle = len(logs) // 2
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return None
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            theirs = _look_at(logs, range(middle, len(logs)), deadline)
            with os.fdopen(writing, "wb") as file:
                pickle.dump(theirs, file, protocol=5)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        mine = _look_at(logs, range(middle), deadline)
        raw = file.read()
    _, status = os.waitpid(pid, 0)
    if status != 0 or not raw:  # killed for memory, say: what it was to do is done here
        return mine + _look_at(logs, range(middle, len(logs)), deadline)
    theirs = pickle.loads(raw)  # our own child wrote it
    return mine + list(theirs)


def _records(at: int, name: str, file: BinaryIO, shapes: Shapes) -> list[RankRecord]:
    """One, or one for each rank that wrote into a log of a whole host."""
    named = named_for(name)
    head, tail = _ends_of(file, TAIL_BYTES if named.is_rank else MERGED_BYTES)
    record = RankRecord(at, name, named.is_rank, named.rank, named.host, named.local)
    if head:
        _identify(record, head, shapes)
    if not named.is_rank:
        lines = tail.decode("utf-8", "replace").split("\n")
        if (streams := split_streams(list(enumerate(lines, 1)))) is not None:
            return _of_streams(record, streams, shapes)
    _read_ending(record, tail[-TAIL_BYTES:], shapes)
    return [record]


def _of_streams(launcher: RankRecord, streams: Streams, shapes: Shapes) -> list[RankRecord]:
    records = [launcher]
    for number, lines in streams.of_ranks.items():
        local = number if streams.are_local else None
        rank = None if streams.are_local else number
        record = RankRecord(launcher.at, launcher.name, True, rank, launcher.host, local)
        _read_ending(record, _joined(lines), shapes)
        records.append(record)
    _read_ending(launcher, _joined(streams.launcher), shapes)
    return records


def _joined(lines: Sequence[tuple[int, str]]) -> bytes:
    return "\n".join(text for _, text in lines).encode("utf-8", "replace")[-TAIL_BYTES:]


def _ends_of(file: BinaryIO, tail_bytes: int) -> tuple[bytes, bytes]:
    """The first bytes where they are not part of the last, and the last."""
    try:
        size = file.seek(0, os.SEEK_END)
    except (OSError, ValueError):  # a pipe or a packed file: the whole of it has to pass
        head = file.read(tail_bytes)
        tail = head
        while block := file.read(1 << 20):
            tail = (tail + block)[-tail_bytes:]
        return (head[:HEAD_BYTES] if tail is not head else b""), tail
    if size <= tail_bytes:
        file.seek(0)
        return b"", file.read(tail_bytes)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    file.seek(size - tail_bytes)
    return head, file.read(tail_bytes)


def _identify(record: RankRecord, head: bytes, shapes: Shapes) -> None:
    for raw in head.split(b"\n")[:80]:
        _note_identity(record, raw, shapes.of(raw))


def _note_identity(record: RankRecord, raw: bytes, shape: Shape) -> None:
    if record.is_rank and record.rank is None and (rank := stream_rank(raw)) is not None:
        record.rank = rank
    if not shape.statements:
        return
    for name, numbers in statements_of(shape, text_of(raw)):
        if name == "me-nccl":
            record.host = record.host or numbers["node"]
            record.pid = record.pid or int(numbers["pid"])
            record.local = int(numbers["local"]) if record.local is None else record.local
        elif name == "me-ip":
            record.ip = record.ip or numbers["ip"]
        elif name == "me-rank" and record.rank is None and record.is_rank:
            record.rank = int(numbers["rank"])
        elif "world" in numbers:
            record.world = max(record.world, int(numbers["world"]))


def _read_ending(record: RankRecord, tail: bytes, shapes: Shapes) -> None:
    """From the last line back to the last progress; then forward, in the order of the file."""
    lines = tail.split(b"\n")
    if len(tail) >= TAIL_BYTES:
        del lines[0]  # the part of a line
    start = len(lines)
    first = max(0, len(lines) - MOST_LINES)
    for at in range(len(lines) - 1, first - 1, -1):
        shape = shapes.of(lines[at])
        if shape.is_progress:
            said = read_line(text_of(lines[at]))
            if said is not None and said.step is not None:
                record.step = said.step
                break
        start = at
    if len(tail) < TAIL_BYTES:  # the head is in it, before the last progress
        for raw in lines[: min(start, 80)]:
            if not shapes.of(raw).is_progress:
                _note_identity(record, raw, shapes.of(raw))
    reader = _EndingReader(record)
    for raw in lines[start:]:
        shape = shapes.of(raw)
        if not shape.says_nothing:
            _note_identity(record, raw, shape)
            reader.line(raw, shape)


class _EndingReader:
    def __init__(self, record: RankRecord) -> None:
        self._record = record
        self._in_list = False

    def line(self, raw: bytes, shape: Shape) -> None:
        record = self._record
        text = text_of(raw)
        record.is_echo = record.is_echo or shape.is_echo
        record.is_finished = record.is_finished or shape.is_finish
        if shape.is_own and not record.own_text:
            record.own_text = text.strip()[:300]
        elif shape.is_echo and record.own_text and _only_introduces(record.own_text):
            record.own_text = ""  # "DistBackendError: …" whose detail is an echo
        for name, numbers in statements_of(shape, text):
            self._state(name, numbers)

    def _state(self, name: str, numbers: dict[str, str]) -> None:
        record = self._record
        kind = name.partition("-")[0]
        if kind == "waits":
            record.waits = record.waits or numbers
            record.is_echo = True
        elif kind == "status" and numbers.get("group", "0") == "0":
            record.enqueued = int(numbers["enqueued"])
            record.completed = int(numbers["completed"])
        elif kind == "list":
            self._in_list = True
            record.says_gone = record.says_gone or name == "list-gone"
        elif kind == "accuses":
            record.says_gone = record.says_gone or name == "accuses-gone"
            if name != "accuses-horovod" or self._in_list or "," in numbers.get("ranks", ""):
                record.accused += ranks_in(numbers.get("ranks") or numbers.get("more", ""))
                del record.accused[MOST_KEPT:]
        elif kind == "peer" and len(record.peers) < MOST_KEPT:
            record.peers.append(numbers.get("node") or numbers.get("ip") or numbers.get("ip2", ""))
        elif kind not in ("me", "joined", "world", "signals") and len(record.said) < MOST_KEPT:
            record.said.append((name, numbers))


def _only_introduces(text: str) -> bool:
    return text.startswith(("terminate called", "torch.distributed.Dist"))
