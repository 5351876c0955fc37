"""Streams out of compressed files, bounded, and as far as a damaged file goes.

In: an open file and the name of its compression. Out: a stream of the unpacked bytes.
Promises: nothing is written to the disk; at most BLOCK_BYTES are unpacked at a time and
MOST_UNPACKED_BYTES in all, until the deadline; a file that is cut off or damaged gives what comes
before the damage, which is all that a job that was killed has left of its log. What was not read
stands in `notes`.
"""

from __future__ import annotations

import abc
import bz2
import importlib
import io
import lzma
import shlex
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from rerail.errors import UnreadableInput
from rerail.evidence.text.file_heads import BLOCK_BYTES, MAGIC
from rerail.platform.deadline import Deadline
from rerail.wording import bytes_in_words

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_UNPACKED_BYTES = 1 << 30
MOST_LZMA_MEMORY_BYTES = 256 << 20  # `xz -9` asks for 65 MiB; a hostile header for 4 GiB

# What the readers of the standard library raise on bytes that are not what they should be.
DAMAGE = (
    *(OSError, EOFError, ValueError, OverflowError, RuntimeError, NotImplementedError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)


class BoundedStream(io.RawIOBase, abc.ABC):
    """Ends at the bound, at the deadline, or where the bytes make no sense any more."""

    def __init__(self, name: str, deadline: Deadline, notes: list[str]) -> None:
        self._name = name
        self._deadline = deadline
        self._notes = notes
        self._given_bytes = 0
        self._is_over = False

    @abc.abstractmethod
    def _more(self, most_bytes: int) -> bytes:
        """The next bytes, at least one; none at the end."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = b"" if self._is_over or self._is_at_bound() else self._read(len(view))
        view[: len(data)] = data
        self._given_bytes += len(data)
        self._is_over = self._is_over or not data
        return len(data)

    def _read(self, most_bytes: int) -> bytes:
        try:
            return self._more(min(most_bytes, BLOCK_BYTES))
        except UnreadableInput:
            raise
        except DAMAGE as error:
            what = "cut off" if isinstance(error, EOFError) else "damaged"
            self._note(f"{self._name} is {what} after {bytes_in_words(self._given_bytes)}")
            return b""

    def _is_at_bound(self) -> bool:
        if self._given_bytes >= MOST_UNPACKED_BYTES:
            most = bytes_in_words(MOST_UNPACKED_BYTES)
            self._note(f"{self._name} unpacks to more than {most}: the rest was not read")
            return True
        return self._deadline.skips(f"the rest of {self._name}")

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)


class Unpacked(BoundedStream):
    """A compressed file; several that were written one after the other are one text."""

    def __init__(
        self, packed: BinaryIO, kind: str, name: str, deadline: Deadline, notes: list[str]
    ) -> None:
        super().__init__(name, deadline, notes)
        self._packed = packed
        self._kind = kind
        self._new = _decoder_for(kind, name)
        self._decoder = self._new()
        self._waiting = b""

    def _more(self, most_bytes: int) -> bytes:
        while True:
            if self._decoder.eof and not self._begin_next():
                return b""
            chunk = b""
            if self._decoder.needs_input:
                chunk = self._waiting or self._packed.read(BLOCK_BYTES)
                self._waiting = b""
            data = self._decoder.decompress(chunk, most_bytes)
            if data:
                return cast("bytes", data)
            if not chunk and self._decoder.needs_input and not self._decoder.eof:
                raise EOFError

    def _begin_next(self) -> bool:
        rest = self._decoder.unused_data or self._packed.read(BLOCK_BYTES)
        if not rest.startswith(MAGIC[self._kind]):
            return False  # the end, or what tapes and block devices are filled up with
        self._decoder = self._new()
        self._waiting = rest
        return True

    def close(self) -> None:
        self._packed.close()
        super().close()


class _Deflate:
    """zlib with the interface that bz2, lzma and zstd share."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


def _decoder_for(kind: str, name: str) -> Callable[[], Any]:
    if kind == "gzip":
        return _Deflate
    if kind == "bzip2":
        return bz2.BZ2Decompressor
    if kind == "xz":
        return lambda: lzma.LZMADecompressor(memlimit=MOST_LZMA_MEMORY_BYTES)
    try:
        return cast(
            "Callable[[], Any]", importlib.import_module("compression.zstd").ZstdDecompressor
        )
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        raise UnreadableInput(
            f"{name} is compressed with {kind}, which Python {version} cannot unpack.",
            f"Type: {kind} -dc {shlex.quote(name)} | rerail explain -",
        ) from None
