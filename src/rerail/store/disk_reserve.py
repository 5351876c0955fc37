"""Deciding when the record has to leave the rest of the disk to the run.

In: how many bytes of output the run folder holds. Out: whether the disk is too short of space for
more. The checkpoint that the run writes next often goes to the same disk, and its size is not known
before it is written. So the record takes at most a fifth of what it could have: what is free stays
at least FREE_PER_STORED times as large as what is stored. Promises: no method raises OSError; the
disk is asked at most once a second and once per CHECK_BYTES of output.
"""

from __future__ import annotations

import os
from pathlib import Path

FREE_PER_STORED = 4
FREE_SHARE = 0.05
# Five per cent of a shared disk of 10 TB are 500 GB: far more than a record could endanger.
MOST_FREE_BYTES = 1 << 30
# This much is stored whatever is free: it holds the whole output of most runs.
ALWAYS_STORED_BYTES = 1 << 20
CHECK_SECONDS = 1.0
CHECK_BYTES = 1 << 20


class DiskReserve:
    """The free space on the disk of `folder` that output must not use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_short = False
        self._checked_at: float | None = None
        self._unchecked_bytes = 0

    def is_short(
        self, stored_bytes: int, held_bytes: int, more_bytes: int, t_seconds: float
    ) -> bool:
        """Return whether what is held in memory and what arrives now must not be stored."""
        if stored_bytes + held_bytes + more_bytes <= ALWAYS_STORED_BYTES:
            return False
        self._unchecked_bytes += more_bytes
        if self._is_check_due(t_seconds):
            self._checked_at, self._unchecked_bytes = t_seconds, 0
            self._is_short = self.spare_bytes(stored_bytes) < held_bytes + more_bytes
        return self._is_short

    def spare_bytes(self, stored_bytes: int) -> int:
        """Return how many more bytes may be stored without using the reserve."""
        always = max(ALWAYS_STORED_BYTES - stored_bytes, 0)
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            return 1 << 62  # unknown: the write that follows says what is wrong
        free = disk.f_bavail * disk.f_frsize
        share = min(int(disk.f_blocks * disk.f_frsize * FREE_SHARE), MOST_FREE_BYTES)
        # Storing n bytes more is allowed while free - n >= FREE_PER_STORED * (stored + n).
        by_stored = (free - FREE_PER_STORED * stored_bytes) // (FREE_PER_STORED + 1)
        return max(min(by_stored, free - share), always)

    def _is_check_due(self, t_seconds: float) -> bool:
        if self._checked_at is None or self._unchecked_bytes >= CHECK_BYTES:
            return True
        return not 0 <= t_seconds - self._checked_at < CHECK_SECONDS
