"""How much of its resident memory counts in each process of a tree, so that no page counts twice.

In: who is in the tree, their resident sizes, the time. Out: a `Share` for each process. The
kernel's proportional sizes (smaps_rollup) say it exactly, and cost 20 ms of CPU for every GB, so
they are read in rounds over the whole tree: a round when processes have come or gone, when memory
is higher than in any round before, and every ten seconds (more seldom where a round brings no
news), all of it within MOST_CPU_SHARE.
Between rounds, and where the kernel does not tell, private memory counts in full and shared memory
once: what a fork has from its parent counts in the parent, pages of files and /dev/shm by the share
of the last round, and before it in the process that has most of them. Promises: what is not known
yet counts too little rather than twice, so that a peak is never made up by a fork.

File pages are shared with strangers as well (everybody who trains maps libtorch). So that a run
does not look smaller because another runs beside it, the tree has at least as many as the process
with most of them. Where a process is alone nothing is shared out: its memory is what is resident.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rerail.platform.procfs import SharedOut, fork_source, read_shared_out

MOST_CPU_SHARE = 0.001
ROUND_SECONDS, QUIET_ROUND_SECONDS = 10.0, 60.0
LOOK_SECONDS = 0.25
SETTLED_SECONDS = 0.3  # since the last process came or went: forks come in handfuls
HIGHER = 1.03  # times the memory of the highest round
# Credit is in seconds of CPU: a short run has one round of about 2 GB, a long wait saves up two.
FIRST_CREDIT_SECONDS, MOST_CREDIT_SECONDS = 0.04, 0.08
# One read stops the sampler for as long as it takes. What is larger stays an estimate.
MOST_READ_SECONDS = 0.25
_FIRST_COST_SECONDS_PER_BYTE = 0.02 / (1 << 30)
_LEAST_NEWS = 0.02


class Share:
    """What counts in one process."""

    __slots__ = ("anon_elsewhere", "file_part", "is_proportional", "shared_part")

    def __init__(self, anon_elsewhere: int, file_part: float, shared_part: float) -> None:
        self.anon_elsewhere = anon_elsewhere  # in bytes: what is new since then is private
        self.file_part = file_part  # of one: others map what is new as well
        self.shared_part = shared_part
        self.is_proportional = False


class Resident(NamedTuple):
    anon_bytes: int
    other_bytes: int  # files and shared memory


class Shares:
    """The shares of a tree, kept as exact as the account of their cost allows."""

    def __init__(
        self,
        read: Callable[[int], SharedOut | None] = read_shared_out,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._read, self._clock = read, clock
        self._shares: dict[int, Share] = {}
        self._round: dict[int, SharedOut | None] | None = None  # under way
        self._credit_seconds = FIRST_CREDIT_SECONDS
        self._looked_t = self._changed_t = self._round_t = float("-inf")
        self._pause_seconds = ROUND_SECONDS
        self._highest_bytes = 0  # in a round
        self._cost_per_byte = _FIRST_COST_SECONDS_PER_BYTE
        self._is_refused = False
        self._has_news = False

    def begin(self, t: float, pid: int, resident: Mapping[int, Resident]) -> Share:
        """A process was seen for the first time; `resident` has it and those before it."""
        self._changed_t, self._has_news = t, True
        if not self._shares:
            share = Share(0, 1.0, 1.0)
            share.is_proportional = True
        else:
            source = fork_source(pid)
            inherited = 0
            if source in resident:
                inherited = min(resident[pid].anon_bytes, resident[source].anon_bytes)
            share = Share(inherited, 0.0, 0.0)
        self._shares[pid] = share
        return share

    def end(self, t: float, pid: int) -> None:
        """What an ended process had counted of shared pages counts in those that are left."""
        share = self._shares.pop(pid, None)
        if share is None:
            return
        self._changed_t, self._has_news = t, True
        left = list(self._shares.values())
        if len(left) == 1:
            left[0].anon_elsewhere, left[0].file_part, left[0].shared_part = 0, 1.0, 1.0
            left[0].is_proportional = True
            return
        # As if all had shared all of it; where fewer did, it is more, and the next round says so.
        freed = share.anon_elsewhere // len(left) if left and share.is_proportional else 0
        elsewhere = sum(each.anon_elsewhere for each in left)
        for each in left:
            if elsewhere:
                each.anon_elsewhere -= min(freed, elsewhere) * each.anon_elsewhere // elsewhere

    def update(self, t: float, resident: Mapping[int, Resident]) -> bool:
        """Go on with a round, or begin one if it is time; True if shares have changed."""
        if not self._has_news and self._round is None and t < self._looked_t + LOOK_SECONDS:
            return False
        if self._looked_t > float("-inf"):
            self._credit_seconds += MOST_CPU_SHARE * (t - self._looked_t)
            self._credit_seconds = min(self._credit_seconds, MOST_CREDIT_SECONDS)
        self._looked_t = t
        has_changed = self._estimate(resident) or self._has_news
        self._has_news = False
        if self._round is None:
            if not self._is_time(t, resident):
                return has_changed
            self._round = {}
        return self._go_on(t, resident) or has_changed

    def _estimate(self, resident: Mapping[int, Resident]) -> bool:
        """Files and shared memory, before a round has been: as in the process with most of them."""
        if len(resident) < 2 or all(share.is_proportional for share in self._shares.values()):
            return False
        most = max(resident, key=lambda pid: resident[pid].other_bytes)
        share = self._shares[most]
        if share.is_proportional:
            return False
        size = resident[most].other_bytes
        elsewhere = sum(
            int(self._shares[pid].file_part * each.other_bytes)
            for pid, each in resident.items()
            if pid != most
        )
        part = _part(max(0, size - elsewhere), size)
        if part - share.file_part < _LEAST_NEWS:
            return False
        for each in self._shares.values():
            if not each.is_proportional:
                each.file_part = each.shared_part = 0.0
        share.file_part = share.shared_part = part
        return True

    def _is_time(self, t: float, resident: Mapping[int, Resident]) -> bool:
        if len(resident) < 2 or self._is_refused or self._credit_seconds < 0:
            return False
        if t - self._changed_t < SETTLED_SECONDS:
            return False
        is_due = self._round_t < self._changed_t or t - self._round_t >= self._pause_seconds
        if not is_due and self._counted(resident) <= HIGHER * self._highest_bytes:
            return False
        largest = max(sum(each) for each in resident.values())
        return largest * self._cost_per_byte <= MOST_READ_SECONDS

    def _counted(self, resident: Mapping[int, Resident]) -> int:
        """Anonymous memory of the tree, by the shares of now."""
        return sum(
            max(0, each.anon_bytes - self._shares[pid].anon_elsewhere)
            for pid, each in resident.items()
            if pid in self._shares
        )

    def _go_on(self, t: float, resident: Mapping[int, Resident]) -> bool:
        """Read as many as take no longer than one large one; the round counts when it is done."""
        assert self._round is not None
        begun = self._clock()
        read_bytes = 0
        for pid, each in resident.items():
            if pid in self._round:
                continue
            self._round[pid] = self._read(pid)
            read_bytes += sum(each)
            if self._clock() - begun > MOST_READ_SECONDS / 10:
                break
        took = self._clock() - begun
        self._credit_seconds -= took
        if read_bytes > 64 << 20:
            self._cost_per_byte = max(took / read_bytes, _FIRST_COST_SECONDS_PER_BYTE / 4)
        if any(pid not in self._round for pid in resident):
            return False
        found = {pid: one for pid, one in self._round.items() if one and pid in self._shares}
        is_first = self._round_t < self._changed_t
        self._round, self._round_t = None, t
        self._is_refused = not found and bool(self._shares)
        before = self._counted(resident)
        self._take(found)
        now = self._counted(resident)
        has_news = is_first or abs(now - before) > _LEAST_NEWS * before
        self._pause_seconds = (
            ROUND_SECONDS if has_news else min(2 * self._pause_seconds, QUIET_ROUND_SECONDS)
        )
        self._highest_bytes = max(self._highest_bytes, now)
        return True

    def _take(self, found: Mapping[int, SharedOut]) -> None:
        parts = {pid: one.pss_file_bytes for pid, one in found.items()}
        if found:
            most = max(found, key=lambda pid: found[pid].rss_file_bytes)
            missing = found[most].rss_file_bytes - sum(parts.values())
            parts[most] += max(0, missing)
        for pid, one in found.items():
            share = self._shares[pid]
            share.anon_elsewhere = max(0, one.rss_anon_bytes - one.pss_anon_bytes)
            share.file_part = _part(parts[pid], one.rss_file_bytes)
            share.shared_part = _part(one.pss_shared_bytes, one.rss_shared_bytes)
            share.is_proportional = True


def _part(counted: int, of: int) -> float:
    return min(1.0, counted / of) if of > 0 else 1.0
