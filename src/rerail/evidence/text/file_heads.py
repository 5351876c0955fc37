"""What a file is, seen in its first bytes: compressed, an archive, or neither.

In: the first HEAD_BYTES of a file. Out: the name of the kind. Here too is the little that plain
files, compressed files and archives share: a file's way to be opened, and its name as it is shown.
Apart from the readers of the latter two, which a plain log need not load. Pure.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

from rerail.platform.os_text import printable

Opener = Callable[[], BinaryIO]

BLOCK_BYTES = 64 << 10  # read at once
HEAD_BYTES = 64 << 10  # enough to tell what a file is
MAGIC = {
    "gzip": b"\x1f\x8b",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zstd": b"\x28\xb5\x2f\xfd",
}


def compression_of(head: bytes) -> str | None:
    return next((name for name, magic in MAGIC.items() if head.startswith(magic)), None)


def archive_kind(head: bytes) -> str | None:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    return "tar" if head[257:262] == b"ustar" else None


def plain_name(name: str) -> str:
    """A member's name, which anybody may have written, as it can be shown."""
    return printable(name)[-200:]


def buffered(raw: io.RawIOBase) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(raw, BLOCK_BYTES))
