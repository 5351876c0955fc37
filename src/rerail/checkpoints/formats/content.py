"""Which reader a part of an archive needs, told by its first bytes.

Loading an archive loads the pickles in it, wherever they are: in a member, in an array of objects,
behind a compression. So they are looked at like a pickle that is a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import IO

from rerail.checkpoints.formats.budget import Budget
from rerail.checkpoints.formats.outcome import Reading, Unfinished
from rerail.checkpoints.formats.tensors import NPY_SIGNATURE, check_npy
from rerail.checkpoints.formats.torch_legacy import check_pickle

Check = Callable[[IO[bytes], int, Budget], Reading]

HEAD_BYTES = 512
PICKLE_SIGNATURES = tuple(bytes([0x80, protocol]) for protocol in (2, 3, 4, 5))
ZIP_SIGNATURE = b"PK\x03\x04"
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
# The first protocols have no signature: a class or function by name, or a container.
_PICKLE_1 = re.compile(rb"\(?[\]})]q\x00")
_PICKLE_0 = re.compile(
    rb"\(?(?:[ci][A-Za-z_][\w.]{0,200}\n[A-Za-z_][\w.]{0,200}\n|[dlt]p\d{1,9}\n)"
)
# Of zlib, as joblib writes it: the usual size of the window, and a checksum of the two bytes.
_ZLIB_SIGNATURES = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def reader_of_content(head: bytes) -> Check | None:
    """Return the reader for a pickle or an array; None for anything else."""
    if _PICKLE_0.match(head):
        return _refuse_pickle_0
    if head.startswith(PICKLE_SIGNATURES) or _PICKLE_1.match(head):
        return check_pickle
    return check_npy if head.startswith(NPY_SIGNATURE) else None


def _refuse_pickle_0(file: IO[bytes], size: int, budget: Budget) -> Reading:
    raise Unfinished("a pickle of protocol 0 is not looked into; save it with a newer protocol")


def is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def is_packed(head: bytes) -> bool:
    """Whether it is compressed or an archive, so that a pickle in it does not show."""
    return head.startswith((ZIP_SIGNATURE, *COMPRESSED, *_ZLIB_SIGNATURES)) or is_tar(head)
