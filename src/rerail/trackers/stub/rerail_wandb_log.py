"""The file in which W&B keeps the records of a run: what is whole in it, and a new end for it.

Comes in: the path of such a file, and records as bytes. Goes out: the same file, cut after its last
whole record and continued from there. Standard library only; CPython 3.8 on.
"""

import os
from struct import pack, unpack
from zlib import crc32

from rerail_not_done import NotDone


class TransactionLog:
    """W&B's file of records, framed as in LevelDB's log: what is whole in it, and a new end.

    W&B's package has no writer in Python any more. A file begins with seven bytes of its own, then
    come blocks of 32 KiB; a record is one piece, or several across blocks, each with a checksum,
    its length and its kind.
    """

    BLOCK, HEAD, PIECE = 32768, 7, 7
    WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4

    def __init__(self, path):
        self.path = path
        self.count = 0
        self.last = b""  # the last record that is whole
        self.last_at = self.end = self.HEAD  # where it begins; where the next one goes
        with open(path, "rb") as file:
            if file.read(self.HEAD)[:4] != b":W&B":
                raise NotDone("its file is not one of W&B's")
            self._read(file)

    def _read(self, file):
        at, parts, began = self.HEAD, None, self.HEAD
        while True:
            left = self.BLOCK - at % self.BLOCK
            if left < self.PIECE:
                file.seek(left, 1)
                at += left
                continue
            head = file.read(self.PIECE)
            if len(head) < self.PIECE:
                return
            checksum, length, kind = unpack("<LHB", head)
            data = file.read(length)
            is_sound = len(data) == length and crc32(data, crc32(bytes([kind]))) == checksum
            if not is_sound or kind not in (1, 2, 3, 4):
                return
            if kind in (self.WHOLE, self.FIRST):
                parts, began = [], at
            elif parts is None:
                return
            parts.append(data)
            at += self.PIECE + length
            if kind in (self.WHOLE, self.LAST):
                self.last, self.last_at, self.end = b"".join(parts), began, at
                self.count += 1
                parts = None

    def cut_last(self):
        self.end = self.last_at

    def append(self, records):
        """In one write, in place of what was torn: half a record that no reader can use."""
        octets = bytearray()
        for record in records:
            octets += self._framed(record, self.end + len(octets))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.ftruncate(descriptor, self.end)
            os.pwrite(descriptor, bytes(octets), self.end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _framed(self, record, at):
        octets, is_first = bytearray(), True
        while record or is_first:
            left = self.BLOCK - (at + len(octets)) % self.BLOCK
            if left < self.PIECE:
                octets += bytes(left)
                continue
            data, record = record[: left - self.PIECE], record[left - self.PIECE :]
            if is_first:
                kind = self.FIRST if record else self.WHOLE
            else:
                kind = self.MIDDLE if record else self.LAST
            is_first = False
            octets += pack("<LHB", crc32(data, crc32(bytes([kind]))), len(data), kind) + data
        return octets
