"""Descriptors that are not ours to keep: closed standard streams, and what the command inherits.

Python opens every file of ours so that it is closed on exec; what whoever started us left open
is not, which tells the two apart.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterable

_MOST_DESCRIPTORS = 65536


def occupy_closed_descriptors() -> set[int]:
    """Fill closed standard descriptors with /dev/null, so that no file of ours lands on them."""
    closed = set()
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor, inheritable=False)
                os.close(opened)
            closed.add(descriptor)
    return closed


def point_at_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def close_inherited() -> None:
    """Let go of what the command has inherited through us: it may be the last to hold it.

    A pipe whose other end waits for the command to close it would else wait for us.
    """
    for descriptor in _open_descriptors():
        if descriptor > 2 and not _is_closed_on_exec(descriptor):
            os.close(descriptor)


def close_all_but(kept: Iterable[int]) -> None:
    """For a forked process that needs few of the descriptors it was born with."""
    kept = set(kept)
    if not (listed := _open_descriptors()):  # no /proc, or no descriptor left for the listing
        for low, high in itertools.pairwise([-1, *sorted(kept), _MOST_DESCRIPTORS]):
            os.closerange(low + 1, high)
    for descriptor in listed:
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the listing's own


def _open_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208
    except (OSError, ValueError):
        return []


def _is_closed_on_exec(descriptor: int) -> bool:
    try:
        return bool(fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC)
    except OSError:
        return True  # it was the listing's own and is gone
