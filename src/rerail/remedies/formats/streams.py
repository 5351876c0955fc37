"""Files that can only be read from front to back: JSON, compressed streams, tar archives."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
from io import BufferedIOBase
from typing import IO

from rerail.remedies.formats.torn import Torn

COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_CHUNK_BYTES = 4 << 20
_LARGEST_JSON_BYTES = 256 << 20


def check_json(file: IO[bytes], size: int) -> str:
    if size > _LARGEST_JSON_BYTES:
        return "JSON, too large to be parsed"
    try:
        json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise Torn(f"its JSON is cut off or damaged ({str(error)[:60]})") from None
    return "JSON"


def check_compressed(file: IO[bytes], size: int) -> str:
    start = file.read(6)
    file.seek(0)
    name = next(name for signature, name in COMPRESSED.items() if start.startswith(signature))
    try:
        with _decompressed(file, name) as stream:
            while stream.read(_CHUNK_BYTES):
                pass
    except Exception as error:
        raise Torn(f"its {name} stream is cut off or damaged ({str(error)[:60]})") from None
    return f"{name} stream"


def _decompressed(file: IO[bytes], name: str) -> BufferedIOBase:
    if name == "gzip":
        return gzip.GzipFile(fileobj=file)
    return bz2.BZ2File(file) if name == "bzip2" else lzma.LZMAFile(file)


def is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def check_tar(file: IO[bytes], size: int) -> str:
    """Members are skipped, not read: a tar archive has checksums of its headers only."""
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            end = max((m.offset_data + m.size for m in archive), default=0)
    except Exception as error:
        raise Torn(f"the archive is damaged ({str(error)[:60]})") from None
    if end + 512 > size:
        raise Torn("the archive ends before its last member does")
    return "tar archive"
