"""Reads `agent/*.box` and `*.boxes`: what a process last said of itself, as a records.BlackBox.

Comes in: the file that a process wrote through memory (layout: agent/stub/rerail_layout.py),
possibly killed in the middle of a text; or the file that a parent made for its children. Goes out:
a BlackBox, or None where the file is not a black box of this layout. Promises: reads only, raises
nothing for damaged content; what is out of range counts as not observed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from rerail.agent import rerail_layout as layout
from rerail.records import (
    BlackBox,
    CollectiveCall,
    LoadedFile,
    LoaderSettings,
    PythonFrame,
    StepPoint,
)
from rerail.store.agent_files import AgentDir
from rerail.store.regular_files import open_regular, read_regular


class _Box:
    """The bytes of one box, by the names of the layout."""

    def __init__(self, octets: bytes, t0_ns: int) -> None:
        self.octets = octets
        self.t0_ns = t0_ns

    def word(self, index: int) -> int:
        return int(struct.unpack_from("=q", self.octets, index * 8)[0])

    def float_word(self, index: int) -> float | None:
        value = float(struct.unpack_from("=d", self.octets, index * 8)[0])
        return None if math.isnan(value) else value

    def head(self, name: str) -> int:
        return self.word(layout.HEAD[name] // 8)

    def number(self, name: str) -> int:
        return self.word(layout.WORD[name])

    def number_or_none(self, name: str) -> int | None:
        value = self.number(name)
        return None if value < 0 else value

    def text_at(self, offset: int, capacity: int) -> str | None:
        return self._bytes_at(offset, capacity).decode("utf-8", "replace") or None

    def bytes_of(self, name: str) -> bytes:
        return self._bytes_at(*layout.TEXT[name])

    def _bytes_at(self, offset: int, capacity: int) -> bytes:
        length = int(struct.unpack_from("<H", self.octets, offset)[0])
        return self.octets[offset + 2 : offset + 2 + length] if length <= capacity else b""

    def text(self, name: str) -> str | None:
        return self.text_at(*layout.TEXT[name])

    def seconds(self, ns: int) -> float:
        return round((ns - self.t0_ns) / 1e9, 3)

    def fine_seconds(self, ns: int) -> float:
        return round((ns - self.t0_ns) / 1e9, 6)


def read_box(path: Path, t0_ns: int) -> BlackBox | None:
    """The black box in `path`; `t0_ns` is the monotonic clock at the start of the run."""
    try:
        return _parse(read_regular(path, layout.SIZE), t0_ns)
    except OSError:
        return None


def has_lent_box(path: Path) -> bool:
    with open_regular(path) as file:
        return bool(taken_boxes(file.read(layout.BOXES_HEAD_SIZE)))


def read_all_boxes(agent_dir: AgentDir, t0_ns: int) -> list[BlackBox]:
    """Everybody's. A forked child that became another Python program has a file of its own too,
    which is the later one."""
    return BoxReader(agent_dir, t0_ns).read()


class BoxReader:
    """Reads all boxes again and again, and takes apart only those that have changed."""

    def __init__(self, agent_dir: AgentDir, t0_ns: int) -> None:
        self._agent_dir = agent_dir
        self._t0_ns = t0_ns
        self._known: dict[tuple[Path, int], tuple[bytes, BlackBox | None]] = {}

    def read(self) -> list[BlackBox]:
        found: dict[tuple[int, int], BlackBox] = {}
        known, self._known = self._known, {}
        for place, octets in self._octets():
            before = known.get(place)
            if before is None or before[0] != octets:
                before = octets, _parse(octets, self._t0_ns)
            self._known[place] = before
            if (box := before[1]) is not None:
                found[box.pid, box.start_ticks] = box
        return sorted(found.values(), key=lambda box: (box.started_t_seconds, box.pid))

    def _octets(self) -> Iterator[tuple[tuple[Path, int], bytes]]:
        for path in sorted(self._agent_dir.glob("*.boxes")):
            with suppress(OSError), open_regular(path) as file:
                for number, octets in enumerate(_taken(file)):
                    yield (path, number), octets
        for path in sorted(self._agent_dir.glob("*.box")):
            with suppress(OSError):
                yield (path, 0), read_regular(path, layout.SIZE)


def read_head(agent_dir: AgentDir, pid: int, start_ticks: int) -> bytes | None:
    """The first bytes of a living process's box, wherever it is."""
    own = agent_dir / f"{pid}-{start_ticks}.box"
    for path in (own, *agent_dir.glob("*.boxes")):
        try:
            with open_regular(path) as file:
                heads = [file.read(layout.HEAD_SIZE)] if path == own else _taken_heads(file)
        except OSError:
            continue
        for head in heads:
            if len(head) < layout.HEAD_SIZE or not head.startswith(layout.MAGIC):
                continue
            found = struct.unpack_from("=qq", head, layout.HEAD["pid"])
            if found == (pid, start_ticks) or (path == own and found[0] == pid):
                return head
    return None


def _taken_heads(file: BinaryIO) -> list[bytes]:
    return list(_taken(file, layout.HEAD_SIZE))


def taken_boxes(head: bytes) -> list[int]:
    """Where the boxes begin that a child has taken, by the head of such a file."""
    if len(head) < layout.BOXES_HEAD_SIZE or not head.startswith(layout.BOXES_MAGIC):
        return []
    owners = struct.unpack_from(f"={layout.MOST_LENT}i", head, layout.OWNERS_AT)
    return [
        layout.BOXES_HEAD_SIZE + index * layout.SIZE for index, owner in enumerate(owners) if owner
    ]


def _taken(file: BinaryIO, most_bytes: int = layout.SIZE) -> Iterator[bytes]:
    for offset in taken_boxes(file.read(layout.BOXES_HEAD_SIZE)):
        file.seek(offset)
        yield file.read(most_bytes)


def _parse(octets: bytes, t0_ns: int) -> BlackBox | None:
    if len(octets) < layout.SIZE or octets[:8] != layout.MAGIC:
        return None
    version, size = struct.unpack_from("=II", octets, layout.HEAD["version"])
    if version != layout.VERSION or size != layout.SIZE:
        return None
    box = _Box(octets, t0_ns)
    steps, backward = max(box.number("optimizer_steps"), 0), max(box.number("backward_calls"), 0)
    forked = box.head("fork_parent_had_threads")
    progress_ns = box.number("last_progress_ns")
    raised_ns = box.number("exception_ns")
    files = _files(box)
    is_exit = box.text("exception_type") == layout.EXIT_CALL
    collectives = _collectives(box)
    error_file, _, output_file = (box.text("error_file") or "").partition("\0")
    return BlackBox(
        pid=box.head("pid"),
        start_ticks=box.head("start_ticks"),
        parent_pid=box.head("parent_pid"),
        python_version=box.text("python_version") or "",
        argv=(box.text("argv") or "").split("\0") if box.text("argv") else [],
        started_t_seconds=box.seconds(box.head("started_ns")),
        said_goodbye=box.head("said_goodbye") != 0,
        handler_installed=box.head("handler_installed") > 0,
        handler_ran=box.head("crash_signal") != 0,
        rank=box.number_or_none("rank"),
        world_size=box.number_or_none("world_size"),
        optimizer_steps=steps,
        backward_calls=backward,
        backward_per_step=_backward_per_step(steps, backward),
        batches=max(box.number("batches"), 0),
        epoch=box.number_or_none("epoch"),
        phase=_phase(box.number("phase")),
        loss=box.float_word(layout.WORD["loss"]),
        first_nonfinite_step=box.number_or_none("first_nonfinite_step"),
        last_progress_t_seconds=box.seconds(progress_ns) if progress_ns > 0 else None,
        progress_text=_progress_text(box),
        progress_total=box.number_or_none("progress_total"),
        batch_shapes=box.text("batch_shapes"),
        collective=box.text("collective") or _waited_for(collectives),
        loaders=_loaders(box),
        files=[file for file in files if not file.loader.startswith(layout.IN_HAND)],
        file_in_hand=_in_hand(files, "file"),
        peer_in_hand=_in_hand(files, "peer"),
        exception_cwd=_in_hand(files, "cwd"),
        history=_history(box),
        exception_type=None if is_exit else box.text("exception_type"),
        exception_text=None if is_exit else _exception_text(box),
        exit_call=_exception_text(box) if is_exit else None,
        exit_frames=_exception_frames(box) if is_exit else [],
        exception_thread=box.text("exception_thread") or None,
        exception_frames=[] if is_exit else _exception_frames(box),
        thread_count=box.head("thread_count") or None,
        fork_parent_had_threads=None if forked < 0 else forked == 1,
        notes=_notes(box),
        collectives=collectives,
        error_file=error_file or None,
        output_file=output_file or None,
        loader_worker=_counted_from_one(box.number("loader_worker")),
        exception_t_seconds=box.fine_seconds(raised_ns) if raised_ns > 0 else None,
        collective_count=max(box.number("collective_count"), 0),
        collective_seconds=max(box.number("collective_ns"), 0) / 1e9,
        data_wait_seconds=max(box.number("data_wait_ns"), 0) / 1e9,
        backward_seconds=max(box.number("backward_ns"), 0) / 1e9,
    )


def _counted_from_one(number: int) -> int | None:
    return number - 1 if number > 0 else None


def _exception_text(box: _Box) -> str | None:
    """Its two parts; a letter of several bytes may lie across the border."""
    octets = b"".join(box.bytes_of(name) for name in ("exception_text", "exception_more"))
    return octets.decode("utf-8", "replace") or None


def _exception_frames(box: _Box) -> list[PythonFrame]:
    found = []
    for row in (box.text("exception_frames") or "").split("\n"):
        if (frame := _place(row)) is not None:
            found.append(frame)
    return found


def _backward_per_step(steps: int, backward: int) -> float | None:
    """Over complete steps: the calls of the step in progress would read as a fraction."""
    if steps == 0 or backward == 0:
        return None
    whole = round(backward / steps)
    return float(whole) if abs(backward - whole * steps) <= whole else round(backward / steps, 3)


def _phase(index: int) -> str | None:
    return layout.PHASES[index] or None if 0 <= index < len(layout.PHASES) else None


def _progress_text(box: _Box) -> str | None:
    count, total = box.number("progress_count"), box.number("progress_total")
    label = box.text("progress_text") or ""
    if count < 0:
        return label or None
    numbers = f"{count}/{total}" if total >= 0 else str(count)
    return f"{label} {numbers}".strip()


def _loaders(box: _Box) -> list[LoaderSettings]:
    found = []
    base = layout.AREA["loaders"] // 8
    for i in range(max(0, min(box.number("loader_count"), layout.LOADER_LENGTH))):
        row = [box.word(base + i * layout.LOADER_WORDS + k) for k in range(layout.LOADER_WORDS)]
        methods = layout.START_METHODS
        found.append(
            LoaderSettings(
                workers=row[0],
                batch_size=None if row[1] < 0 else row[1],
                prefetch=None if row[2] < 0 else row[2],
                start_method=methods[row[3]] or None if 0 <= row[3] < len(methods) else None,
                pin_memory=bool(row[4]),
                persistent=bool(row[5]),
            )
        )
    return found


def _in_hand(files: list[LoadedFile], what: str) -> str | None:
    return next((file.path for file in files if file.loader == layout.IN_HAND + what), None)


def _files(box: _Box) -> list[LoadedFile]:
    found = []
    count = max(box.number("file_count"), 0)
    for number in range(max(0, count - layout.FILE_LENGTH), count):
        offset = layout.AREA["files"] + number % layout.FILE_LENGTH * layout.FILE_SIZE
        size, flags = box.word(offset // 8), box.word(offset // 8 + 1)
        offset += layout.FILE_WORDS * 8
        loader = box.text_at(offset, layout.FILE_LOADER_CAPACITY)
        path = box.text_at(offset + 2 + layout.FILE_LOADER_CAPACITY, layout.FILE_PATH_CAPACITY)
        if path is not None:
            found.append(
                LoadedFile(
                    path=path,
                    loader=loader or "",
                    size_bytes=size,
                    is_mapped=bool(flags & layout.FILE_IS_MAPPED),
                    is_compressed=bool(flags & layout.FILE_IS_COMPRESSED),
                )
            )
    return found


def _history(box: _Box) -> list[StepPoint]:
    begin, size = layout.AREA["history"], layout.HISTORY_LENGTH * layout.HISTORY_WORDS * 8
    points = [
        StepPoint(step, box.seconds(ns), None if math.isnan(loss) else loss)
        for step, ns, loss in struct.iter_unpack("=qqd", box.octets[begin : begin + size])
        if step > 0 and ns > 0
    ]
    return sorted(points, key=attrgetter("step"))


def _collectives(box: _Box) -> list[CollectiveCall]:
    """In the order in which they were entered."""
    found = []
    count, waited_for = box.number("collective_count"), box.number("collective_waited_for")
    for i in range(layout.COLLECTIVE_LENGTH):
        base = layout.AREA["collectives"] // 8 + i * layout.COLLECTIVE_WORDS
        number, entered, left, what, sequence, size, shape = (
            box.word(base + k) for k in range(layout.COLLECTIVE_WORDS)
        )
        op = what & 0xFF
        if not (count - layout.COLLECTIVE_LENGTH < number <= count and 0 < op < len(_OPS)):
            continue
        found.append(
            CollectiveCall(
                number=number,
                op=_OPS[op],
                group=_OPS[op]
                if _OPS[op] == "gradients"
                else _entry(box, "groups", what >> layout.GROUP_SHIFT & 0xFF),
                sequence=sequence,
                entered_t_seconds=box.fine_seconds(entered),
                left_t_seconds=box.fine_seconds(abs(left)) if left else None,
                has_raised=left < 0,
                is_waited_for=number == waited_for,
                size_bytes=max(size, 0),
                shape=layout.unpack_shape(shape) if shape > 0 else [],
                place=_place(_entry(box, "places", what >> layout.PLACE_SHIFT & 0xFF)),
            )
        )
    return sorted(found, key=lambda call: call.number)


_OPS = layout.COLLECTIVES
_TABLES = {
    "groups": (layout.GROUP_LENGTH, layout.GROUP_CAPACITY),
    "places": (layout.PLACE_LENGTH, layout.PLACE_CAPACITY),
}


def _entry(box: _Box, table: str, index: int) -> str:
    """The text that stands at `index`, from 1 on, in one of the two tables."""
    length, capacity = _TABLES[table]
    if not 0 < index <= length:
        return ""
    return box.text_at(layout.AREA[table] + (index - 1) * (2 + capacity), capacity) or ""


def _place(text: str) -> PythonFrame | None:
    file, _, rest = text.partition("\0")
    line, _, function = rest.partition("\0")
    return PythonFrame(file, int(line), function) if function and line.isdecimal() else None


def _waited_for(collectives: list[CollectiveCall]) -> str | None:
    return next((f"{c.op} #{c.number}" for c in collectives if c.is_waited_for), None)


def _notes(box: _Box) -> list[str]:
    found = []
    trouble = box.head("trouble")
    found += [text for bit, text in enumerate(layout.TROUBLES) if trouble >> bit & 1]
    size = 2 + layout.NOTE_CAPACITY
    for i in range(max(0, min(box.number("note_count"), layout.NOTE_LENGTH))):
        text = box.text_at(layout.AREA["notes"] + i * size, layout.NOTE_CAPACITY)
        if text is not None:
            found.append(text)
    return found
