"""Which reader a part of an archive needs, told by its first bytes.

Loading an archive loads the pickles in it, wherever they are: in a member, in an array of objects,
behind a compression. So they are looked at like a pickle that is a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from rerail.checkpoints.formats.budget import Budget
from rerail.checkpoints.formats.outcome import Reading
from rerail.checkpoints.formats.tensors import NPY_SIGNATURE, check_npy
from rerail.checkpoints.formats.torch_legacy import check_pickle

Check = Callable[[IO[bytes], int, Budget], Reading]

HEAD_BYTES = 512
PICKLE_SIGNATURES = tuple(bytes([0x80, protocol]) for protocol in (2, 3, 4, 5))


def reader_of_content(head: bytes) -> Check | None:
    """Return the reader for a pickle or an array; None for anything else."""
    if head.startswith(PICKLE_SIGNATURES):
        return check_pickle
    return check_npy if head.startswith(NPY_SIGNATURE) else None
