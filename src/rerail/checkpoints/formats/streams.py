"""Files that can only be read from front to back: JSON, compressed streams, tar archives."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
from io import BufferedIOBase
from typing import IO, Any

from rerail.checkpoints.formats.budget import Budget, refuse_inflation
from rerail.checkpoints.formats.outcome import Reading, Torn

COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_CHUNK_BYTES = 4 << 20
# An empty list is 2 bytes of JSON and 64 of memory; the largest tokenizers have 33 MB.
_LARGEST_JSON_BYTES = 32 << 20
_LARGEST_TAR_HEADER_BYTES = 1 << 20


def check_json(file: IO[bytes], size: int, budget: Budget) -> Reading:
    if size > _LARGEST_JSON_BYTES:
        return _check_ends_of_json(file, size)
    try:
        json.loads(file.read(), object_pairs_hook=lambda pairs: None)
    except (ValueError, RecursionError) as error:
        raise Torn(f"its JSON is cut off or damaged ({str(error)[:60]})") from None
    return Reading("JSON")


def _check_ends_of_json(file: IO[bytes], size: int) -> Reading:
    start = file.read(64).strip()[:1]
    file.seek(size - 64)
    if (start, file.read(64).strip()[-1:]) not in ((b"{", b"}"), (b"[", b"]")):
        raise Torn("its JSON is cut off or damaged")
    return Reading("JSON", unchecked=f"its JSON of {size} bytes was not parsed")


def check_compressed(file: IO[bytes], size: int, budget: Budget) -> Reading:
    start = file.read(6)
    file.seek(0)
    name = next(name for signature, name in COMPRESSED.items() if start.startswith(signature))
    unchecked = None
    unpacked = 0
    try:
        with _decompressed(file, name) as stream:
            while data := stream.read(_CHUNK_BYTES):
                unpacked += len(data)
                refuse_inflation("it", size, unpacked)
                if not budget.can_read_on():
                    unchecked = f"its {name} stream behind the first {unpacked} bytes"
                    break
    except Torn:
        raise
    except Exception as error:
        raise Torn(f"its {name} stream is cut off or damaged ({str(error)[:60]})") from None
    return Reading(f"{name} stream", unchecked)


def _decompressed(file: IO[bytes], name: str) -> BufferedIOBase:
    if name == "gzip":
        return gzip.GzipFile(fileobj=file)
    return bz2.BZ2File(file) if name == "bzip2" else lzma.LZMAFile(file)


def is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


class _HeaderReader:
    """Gives tarfile the headers, which may claim any length for a name."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_TAR_HEADER_BYTES:
            raise Torn("it has a header that is longer than any name")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def check_tar(file: IO[bytes], size: int, budget: Budget) -> Reading:
    """Members are skipped, not read: a tar archive has checksums of its headers only."""
    end = 0
    try:
        with tarfile.open(fileobj=_HeaderReader(file), mode="r:") as archive:
            while (member := archive.next()) is not None:
                end = max(end, member.offset_data + member.size)
                archive.members.clear()  # type: ignore[attr-defined]  # it remembers them all
                if not budget.can_read_on():
                    return Reading("tar archive", f"its members behind {member.name[:100]}")
    except Torn:
        raise
    except Exception as error:
        raise Torn(f"the archive is damaged ({str(error)[:60]})") from None
    if end + 512 > size:
        raise Torn("the archive ends before its last member does")
    return Reading("tar archive")
