"""How long a checkpoint may be looked at, and how much of a compressed one may be unpacked.

In: the size of the file or folder. Promises: the time is bounded by that size alone, never by what
is inside. Reading is measured by the clock on the wall, because a disk can be slow, but has some
processor time for certain; opcodes by processor time alone, because another program on the machine
must not make an honest file unfinished.
"""

from __future__ import annotations

import time

from rerail.checkpoints.formats.outcome import Torn, Unfinished

# 5 s and 5 s per GiB: a disk of 200 MB/s is enough; the checksums alone take 0.4 s per GiB.
_READING_SECONDS = 5.0
_READING_SECONDS_PER_GIB = 5.0
_CERTAIN_SECONDS = 2.0  # of processor time: 300 MB of zeros take 0.6 s of it
# A pickle of 1 GiB of floating-point numbers takes about 30 s; torch's have a few megabytes.
_OPCODE_SECONDS = 2.0
_OPCODE_SECONDS_PER_GIB = 40.0
_MOST_OPCODE_SECONDS = 60.0
# An array of zeros compresses a thousandfold, so a small one is no reason for suspicion.
_LARGEST_RATIO = 200
_HARMLESS_BYTES = 256 << 20


class Budget:
    def __init__(self, size: int) -> None:
        gib = size / 2**30
        opcode_seconds = _OPCODE_SECONDS + _OPCODE_SECONDS_PER_GIB * gib
        self._opcode_seconds = min(opcode_seconds, _MOST_OPCODE_SECONDS)
        self._reading_ends = time.monotonic() + _READING_SECONDS + _READING_SECONDS_PER_GIB * gib
        self._opcodes_end = time.thread_time() + self._opcode_seconds
        self._certain_until = time.thread_time() + _CERTAIN_SECONDS

    def can_read_on(self) -> bool:
        is_in_time = time.monotonic() < self._reading_ends
        return is_in_time or time.thread_time() < self._certain_until

    def spend_opcodes(self) -> None:
        if time.thread_time() >= self._opcodes_end:
            raise Unfinished(f"its pickle takes longer than {self._opcode_seconds:.0f} s to read")


def refuse_inflation(name: str, packed_bytes: int, unpacked_bytes: int) -> None:
    """Loading what unpacks to a thousand times its size would fill the memory."""
    if unpacked_bytes > _HARMLESS_BYTES and unpacked_bytes > _LARGEST_RATIO * packed_bytes:
        raise Torn(f"{packed_bytes} bytes of {name} unpack to {unpacked_bytes} bytes or more")
