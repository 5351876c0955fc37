"""Output that comes faster than anybody reads it, held until it is clear what is kept of it.

In: chunks of output with their stream and time. Out: the newest of them, at most `most_bytes`; what
was dropped before them is counted. Of a long output only the end is kept: without this, a command
that prints hundreds of megabytes a second would have each of them masked, written and deleted
again. The output log holds chunks here too while the disk is short of space. Promises: no more than
HOLD_SECONDS pass until `is_due`; `is_there` is false for a command that prints slower than
FLOOD_BYTES_PER_SECOND; memory is bounded by `most_bytes` and one chunk.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

FLOOD_BYTES_PER_SECOND = 64 * 1024 * 1024
HOLD_SECONDS = 0.5
_WINDOW_SECONDS = 0.1


class Chunk(NamedTuple):
    data: bytes
    stream: str
    t_seconds: float


class Flood:
    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._window_from = 0.0
        self._in_window = 0
        self._chunks: deque[Chunk] = deque()
        self._held_bytes = 0
        self._held_from = 0.0
        self._goes_on = False  # as in the window before

    def is_there(self, size: int, t_seconds: float) -> bool:
        """Whether a chunk of this size, arriving now, is part of a flood. Counts it."""
        passed = t_seconds - self._window_from
        if not 0 <= passed < _WINDOW_SECONDS:
            is_later = passed > 0
            self._goes_on = is_later and self._in_window > FLOOD_BYTES_PER_SECOND * passed
            self._window_from, self._in_window = t_seconds, 0
        self._in_window += size
        return self._goes_on or self._in_window > FLOOD_BYTES_PER_SECOND * _WINDOW_SECONDS

    def hold(self, chunk: Chunk) -> list[Chunk]:
        """Take one in; the oldest that are no longer among the newest `most_bytes` come out."""
        if not self._chunks:
            self._held_from = chunk.t_seconds
        self._chunks.append(chunk)
        self._held_bytes += len(chunk.data)
        return self.keep_newest(self._most_bytes)

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def keep_newest(self, most_bytes: int) -> list[Chunk]:
        """Let go of the oldest chunks that are not among the newest `most_bytes`; return them."""
        dropped = []
        while self._chunks and self._held_bytes - len(self._chunks[0].data) >= most_bytes:
            dropped.append(self._chunks.popleft())
            self._held_bytes -= len(dropped[-1].data)
        return dropped

    def is_due(self, t_seconds: float) -> bool:
        """Whether what is held has to be written now: it is old, or nothing more has come."""
        if not self._chunks:
            return False
        is_young = 0 <= t_seconds - self._held_from < HOLD_SECONDS
        return not is_young or t_seconds - self._chunks[-1].t_seconds > _WINDOW_SECONDS

    def take(self) -> list[Chunk]:
        chunks = list(self._chunks)
        self._chunks.clear()
        self._held_bytes = 0
        return chunks
