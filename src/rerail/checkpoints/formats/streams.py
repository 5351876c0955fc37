"""Files that can only be read from front to back: JSON, compressed streams, tar archives."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from dataclasses import replace
from io import BufferedIOBase
from typing import IO, Any

from rerail.checkpoints.formats.budget import Budget, refuse_inflation
from rerail.checkpoints.formats.content import (
    COMPRESSED,
    HEAD_BYTES,
    ZIP_SIGNATURE,
    Check,
    is_packed,
    is_tar,
    reader_of_content,
)
from rerail.checkpoints.formats.file_part import open_part
from rerail.checkpoints.formats.outcome import Reading, Torn, Unfinished
from rerail.checkpoints.formats.zip_archive import check_zip

_CHUNK_BYTES = 4 << 20
# An empty list is 2 bytes of JSON and 64 of memory; the largest tokenizers have 33 MB.
_LARGEST_JSON_BYTES = 32 << 20
_LARGEST_TAR_HEADER_BYTES = 1 << 20
# A compressed stream cannot be read from the middle, so what is in it is held in memory.
_LARGEST_KEPT_BYTES = 64 << 20


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
    kept = io.BytesIO()
    try:
        with _decompressed(file, name) as stream:
            while data := stream.read(_CHUNK_BYTES):
                unpacked += len(data)
                refuse_inflation("it", size, unpacked)
                if kept.tell() <= _LARGEST_KEPT_BYTES:
                    kept.write(data)
                if not budget.can_read_on():
                    unchecked = f"its {name} stream behind the first {unpacked} bytes"
                    break
    except Torn:
        raise
    except Exception as error:
        raise Torn(f"its {name} stream is cut off or damaged ({str(error)[:60]})") from None
    kind = f"{name} stream"
    head = bytes(kept.getbuffer()[:HEAD_BYTES])
    if (check := _reader_inside(head)) is None:
        packed = "what it holds, which is compressed once more" if is_packed(head) else None
        return Reading(kind, unchecked or packed)
    if unchecked or unpacked > _LARGEST_KEPT_BYTES:
        return Reading(kind, unchecked or f"what its {unpacked} bytes hold once unpacked")
    kept.seek(0)
    return replace(check(kept, unpacked, budget), kind=kind)


def _reader_inside(head: bytes) -> Check | None:
    """Return the reader for what a stream or an archive holds; None if loading calls nothing."""
    if head.startswith(ZIP_SIGNATURE):
        return check_zip
    return check_tar if is_tar(head) else reader_of_content(head)


def _decompressed(file: IO[bytes], name: str) -> BufferedIOBase:
    if name == "gzip":
        return gzip.GzipFile(fileobj=file)
    return bz2.BZ2File(file) if name == "bzip2" else lzma.LZMAFile(file)


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
    """Check the members that loading would unpickle. A tar has checksums of its headers only."""
    end = 0
    foreign: frozenset[str] = frozenset()
    unchecked = None
    try:
        with tarfile.open(fileobj=_HeaderReader(file), mode="r:") as archive:
            while (member := archive.next()) is not None:
                end = max(end, member.offset_data + member.size)
                archive.members.clear()  # type: ignore[attr-defined]  # it remembers them all
                if member.isreg() and end + 512 <= size:
                    found = _check_member(file, member, budget)
                    foreign |= found.foreign
                    unchecked = unchecked or found.unchecked
                if not budget.can_read_on():
                    unchecked = f"its members behind {member.name[:100]}"
                    return Reading("tar archive", unchecked, foreign)
    except (Torn, Unfinished):
        raise
    except Exception as error:
        raise Torn(f"the archive is damaged ({str(error)[:60]})") from None
    if end + 512 > size:
        raise Torn("the archive ends before its last member does")
    return Reading("tar archive", unchecked, foreign)


def _check_member(file: IO[bytes], member: tarfile.TarInfo, budget: Budget) -> Reading:
    part = open_part(file, member.offset_data, member.offset_data + member.size)
    head = part.read(HEAD_BYTES)
    part.seek(0)
    name = member.name[:100]
    if is_tar(head) or (check := _reader_inside(head)) is None:
        packed = f"what {name} holds, which is packed once more" if is_packed(head) else None
        return Reading("tar archive", packed)
    at = file.tell()
    try:
        return check(part, member.size, budget)
    except Torn as torn:
        raise Torn(f"{name}: {torn}") from None
    except Unfinished as why:
        raise Unfinished(f"{name}: {why}") from None
    finally:
        file.seek(at)  # tarfile reads its next header from there
