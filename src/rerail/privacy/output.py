"""Masking what the command prints, as it is written: same length, so that every offset stays true.

In: bytes as they arrive. Out: bytes of the same length to write, and what has to be overwritten in
what was written before, since a secret may arrive in two pieces. A mask is `[secret-3]` filled up
with stars. Promises: nothing is held back; what holds no secret passes at 200 MB a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rerail.privacy.known import UNNUMBERED
from rerail.privacy.masking import Masker

if TYPE_CHECKING:
    from rerail.privacy.finding import Found

CARRY_BYTES = 4096  # looked at again when more comes: a private key of 4,096 bits is 3,300 long
_BLOCK = 1 << 20
_LARGEST_FILE = 256 << 20

_STARS = bytes(byte if byte in b"\r\n" else ord("*") for byte in range(256))

Correction = tuple[int, bytes]  # how far before the new bytes, and what belongs there


class OutputMasker:
    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._plain = b""  # the last bytes as they were printed
        self._written = b""  # and as they stand in the file
        self.has_learnt = False  # something became known that may stand unmasked further up

    def feed(self, data: bytes) -> tuple[bytes, list[Correction]]:
        plain = self._plain + data
        # What is hidden stays hidden: a secret whose beginning left the carry is no longer known.
        masked = self._written + data
        places = self._masker.places(plain)
        if places:
            masked = self._masked(plain, masked, places)
            plain = _without_settled(plain, masked, places)
        old = len(self._written)
        corrections = []
        if masked[:old] != self._written:
            first = _first_difference(masked, self._written)
            corrections.append((old - first, masked[first:old]))
        keep = _whole_lines(plain)
        self._plain, self._written = plain[keep:], masked[keep:]
        return masked[old:], corrections

    def skip_to(self, data: bytes) -> int:
        """What was printed before `data` is not kept. How much of `data` is to go as well, so that
        of a secret which began before it no part is kept: all of it, if it is short."""
        newline = data.find(b"\n", CARRY_BYTES, 2 * CARRY_BYTES)
        cut = newline + 1 if newline >= 0 else min(CARRY_BYTES, len(data))
        self._plain = self._written = b""
        self.feed(data[:cut])
        return cut

    def _masked(self, plain: bytes, written: bytes, places: list[Found]) -> bytes:
        result = bytearray(written)
        before = self._masker.known.count()
        for start, end, kind in places:
            # At the very end it may go on: hidden now, remembered once it is whole.
            is_whole = end < len(plain)
            label = self._masker.mask_at(plain[start:end], kind) if is_whole else UNNUMBERED
            result[start:end] = same_length(plain[start:end], label)
        self.has_learnt |= self._masker.known.count() > before
        return bytes(result)


def _without_settled(plain: bytes, masked: bytes, places: list[Found]) -> bytes:
    """Return the text with masks for the secrets that nothing can follow: the line has ended.

    They need not be found again when more comes. What has several lines may still go on.
    """
    last = plain.rfind(b"\n")
    result = bytearray(plain)
    for start, end, _ in places:
        if end <= last and b"\n" not in plain[start:end]:
            result[start:end] = masked[start:end]
    return bytes(result)


def _first_difference(one: bytes, other: bytes) -> int:
    """Return where two texts differ first, the second of which ends first."""
    low, high = 0, len(other)
    while low < high:
        middle = (low + high) // 2
        if one[low : middle + 1] == other[low : middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


def _whole_lines(text: bytes) -> int:
    """Where the part begins that is to be looked at again: at a line, if there is one."""
    if len(text) <= CARRY_BYTES:
        return 0
    start = len(text) - CARRY_BYTES
    newline = text.find(b"\n", start)
    return newline + 1 if newline >= 0 else start


def same_length(secret: bytes, label: str) -> bytes:
    """Stars in place of everything but line ends, and the label where it has room."""
    label_bytes = label.encode()
    if b"\n" not in secret and b"\r" not in secret:
        return (
            label_bytes.ljust(len(secret), b"*")
            if len(label) <= len(secret)
            else b"*" * len(secret)
        )
    stars = bytearray(secret.translate(_STARS))
    if len(label_bytes) <= len(secret) and b"\n" not in secret[: len(label_bytes)]:
        stars[: len(label_bytes)] = label_bytes
    return bytes(stars)


def mask_file(path: Path, masker: Masker, *, only_known: bool = False) -> int:
    """Mask a file where it lies, byte for byte; in how many places. Raises OSError.

    For what a process wrote of itself (black box, crash file), and for output that was written
    before a value in it became known (`only_known`).
    """
    count = 0
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for offset, block in _blocks(descriptor):
            places = masker.known.find(block) if only_known else masker.places(block)
            for start, end, kind in places:
                secret = block[start:end]
                os.pwrite(
                    descriptor, same_length(secret, masker.mask_at(secret, kind)), offset + start
                )
                count += 1
    finally:
        os.close(descriptor)
    return count


def _blocks(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Overlapping, so that no secret lies on an edge."""
    offset = 0
    size = min(os.fstat(descriptor).st_size, _LARGEST_FILE)
    while offset < size:
        block = os.pread(descriptor, _BLOCK, offset)
        if not block:
            return
        yield offset, block
        if offset + len(block) >= size:
            return
        offset += len(block) - CARRY_BYTES
