"""Who is who in a job of many logs.

In: a `RankRecord` per file. Out: `Roster`: one record per rank, its host, the ranks whose logs are
not among the files, and what launchers and kernels said. A file that is named for a host and a
place on it gets its rank from the other files of that host, else from the order of the hosts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rerail.evidence.text.rank_survey import RankRecord

PLACES = 8  # on a host, where nothing else is known


class Roster:
    def __init__(self, records: Sequence[RankRecord]) -> None:
        self.others = [record for record in records if not record.is_rank]
        of_ranks = [record for record in records if record.is_rank]
        self._bases = _bases(of_ranks)
        self.ranks: dict[int, RankRecord] = {}
        self.unknown: list[RankRecord] = []
        for record in of_ranks:
            rank = self._rank_of(record)
            if rank is None:
                self.unknown.append(record)
            elif rank in self.ranks:
                _merge(self.ranks[rank], record)
            else:
                record.rank = rank
                self.ranks[rank] = record
        self.places = max((r.local or 0 for r in of_ranks), default=0) + 1
        if self.places == 1:
            self.places = PLACES
        self.world = self._world_of(records)
        self._hosts = self._host_names()
        self._addresses = {
            record.ip: self.host_of(record.rank)
            for record in self.ranks.values()
            if record.ip and record.rank is not None
        }
        self._pids = {
            (self.host_of(rank), record.pid): rank
            for rank, record in self.ranks.items()
            if record.pid is not None
        }

    def _world_of(self, records: Sequence[RankRecord]) -> int:
        """What most of them say, and no fewer than there are."""
        said = Counter(record.world for record in records if record.world)
        world = said.most_common(1)[0][0] if said else 0
        top = max(self.ranks, default=-1) + 1
        if len(self.ranks) > self.places:  # the last ones of a host may be missing
            top = -(-top // self.places) * self.places
        return max(world, top)

    @property
    def missing(self) -> list[int]:
        """Ranks of the job whose logs are not among the files."""
        return [rank for rank in range(self.world) if rank not in self.ranks]

    def host_of(self, rank: int | None) -> str:
        if rank is None:
            return ""
        record = self.ranks.get(rank)
        if record is not None and record.host:
            return record.host
        return self._hosts.get(rank // self.places, "")

    def ranks_of(self, host: str) -> list[int]:
        """Of a host by its name or address; those whose logs are missing too."""
        host = self._addresses.get(host, host).partition(".")[0]
        found = {number for number, name in self._hosts.items() if name == host}
        inside = [n * self.places + place for n in sorted(found) for place in range(self.places)]
        return [rank for rank in inside if not self.world or rank < self.world]

    def host_named(self, host: str) -> str:
        return self._addresses.get(host, host).partition(".")[0]

    def rank_by_pid(self, host: str, pid: int) -> int | None:
        return self._pids.get((host.partition(".")[0], pid))

    def rank_by_place(self, host: str, local: int) -> int | None:
        ranks = self.ranks_of(host)
        return ranks[local] if local < len(ranks) else None

    def _rank_of(self, record: RankRecord) -> int | None:
        if record.rank is not None:
            return record.rank
        base = self._bases.get(record.host)
        return None if base is None or record.local is None else base + record.local

    def _host_names(self) -> dict[int, str]:
        names: dict[int, Counter[str]] = {}
        for rank, record in self.ranks.items():
            if record.host:
                short = record.host.partition(".")[0]
                record.host = short
                names.setdefault(rank // self.places, Counter())[short] += 1
        if not names:
            return self._hosts_by_number()
        return {number: found.most_common(1)[0][0] for number, found in names.items()}

    def _hosts_by_number(self) -> dict[int, str]:
        """Where no rank says on which host it is: node-0 has the first ranks, or node-1 has."""
        numbered = {
            number: record.host
            for record in self.others
            if record.host and (number := _number(record.host)) is not None
        }
        count = -(-self.world // self.places)
        if not numbered or max(numbered) > count or len(numbered) * 2 < count:
            return {}
        offset = 1 if max(numbered) == count else 0
        return {number - offset: host for number, host in numbered.items()}


def _bases(records: Sequence[RankRecord]) -> dict[str, int]:
    """By host, the rank of its first place."""
    known: dict[str, int] = {}
    hosts: set[str] = set()
    places = 1
    for record in records:
        if record.local is None or not record.host:
            continue
        hosts.add(record.host)
        places = max(places, record.local + 1)
        if record.rank is not None and record.rank >= record.local:
            known.setdefault(record.host, record.rank - record.local)
    ordered = sorted(hosts, key=_natural)
    # The order of the hosts is that of their ranks, unless a host that is known says otherwise.
    offsets = {
        number - base // places
        for host, base in known.items()
        if (number := _number(host)) is not None
    }
    offset = offsets.pop() if len(offsets) == 1 else None
    for at, host in enumerate(ordered):
        if host not in known:
            number = _number(host)
            place = at if number is None or offset is None else max(0, number - offset)
            known[host] = place * places
    return known


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _number(name: str) -> int | None:
    found = re.findall(r"\d+", name)
    return int(found[-1]) if found else None


def _merge(kept: RankRecord, other: RankRecord) -> None:
    """Two files of one rank: its output and its errors, say."""
    if other.own_text and not kept.own_text:
        kept.own_text, kept.at, kept.name = other.own_text, other.at, other.name
    elif other.has_words and not kept.has_words:
        kept.at, kept.name = other.at, other.name
    kept.step = max((s for s in (kept.step, other.step) if s is not None), default=None)
    kept.waits = kept.waits or other.waits
    kept.is_echo = kept.is_echo or other.is_echo
    kept.is_finished = kept.is_finished or other.is_finished
    if kept.enqueued is None:
        kept.enqueued, kept.completed = other.enqueued, other.completed
    kept.accused += other.accused
    kept.peers += other.peers
    kept.said += other.said
    kept.pid = kept.pid or other.pid
    kept.ip = kept.ip or other.ip
    kept.host = kept.host or other.host
