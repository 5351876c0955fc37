"""Which files hold the command's output, and which bytes and lines of it each one holds.

In: a run folder. Out: its segments in order. Offsets and line numbers are those of everything that
the command printed, so a gap between two segments is output that was dropped. A file that is larger
than its writer makes them counts up to a bound, and of very many tails the newest count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from rerail.store import bounds, layout
from rerail.store.jsonlines import read_objects
from rerail.store.newlines import count_newlines
from rerail.store.regular_files import open_beginning, regular_size


@dataclass(frozen=True)
class Segment:
    path: Path
    offset: int  # of its first byte in all output
    line: int  # number of the line that its first byte lies in
    size: int  # of what is to be read of it

    def open(self) -> BinaryIO:
        return open_beginning(self.path, self.size)

    @property
    def end(self) -> int:
        return self.offset + self.size


def find_segments(folder: Path, *, without_zeros: bool = False) -> list[Segment]:
    """Those that still exist. A tail whose event was lost counts as following its predecessor.

    `without_zeros`: leave out zero bytes at the very end. A machine that lost its power leaves them
    where the file had grown and the text had not yet reached the disk.
    """
    sizes = _sizes(folder)
    if not sizes:
        return []
    places: dict[str, tuple[int, int]] = {}
    for event in read_objects(folder / layout.EVENTS):
        if event.get("kind") == "output-segment":
            offset, line = event.get("offset"), event.get("line")
            if isinstance(offset, int) and isinstance(line, int):
                places[str(event.get("file"))] = (max(offset, 0), max(line, 1))
    segments: list[Segment] = []
    for name in sorted(sizes, key=lambda name: layout.tail_number(name) or 0):
        path = folder / name
        if name in places:
            offset, line = places[name]
        elif segments:
            last = segments[-1]
            offset, line = last.end, last.line + newlines_in(last)
        else:
            offset, line = 0, 1
        if segments and offset < segments[-1].end:
            offset = segments[-1].end  # two files cannot hold the same byte
        segments.append(Segment(path, offset, line, sizes[name]))
    if without_zeros:
        last = segments.pop()
        segments.append(replace(last, size=_size_without_zeros(last)))
    return segments


def _sizes(folder: Path) -> dict[str, int]:
    tails = {}
    sizes = {}
    try:
        for path in folder.glob("output*.log"):
            number = layout.tail_number(path.name)
            size = regular_size(path)
            if size is not None and path.name == layout.OUTPUT:
                sizes[path.name] = min(size, bounds.OUTPUT_BYTES)
            elif size is not None and number is not None:
                tails[number] = path.name, min(size, bounds.TAIL_BYTES)
    except OSError:
        pass
    return sizes | dict(tails[number] for number in sorted(tails)[-bounds.TAILS :])


def _size_without_zeros(segment: Segment) -> int:
    size = segment.size
    try:
        with segment.open() as file:
            while size > 0:
                start = max(0, size - (1 << 20))
                file.seek(start)
                kept = len(file.read(size - start).rstrip(b"\0"))
                if kept:
                    return start + kept
                size = start
    except OSError:
        return segment.size
    return size


def newlines_in(segment: Segment) -> int:
    count = 0
    try:
        with segment.open() as file:
            while block := file.read(1 << 20):
                count += count_newlines(block)
    except OSError:
        pass
    return count
