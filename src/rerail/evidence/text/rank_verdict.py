"""Who failed first, in a job of many logs?

In: a `Roster`. Out: `Verdict`: the rank or the host, how it failed, and which files say so. Logic
comes first: a rank with a failure of its own words; one that a launcher, a scheduler or a kernel
saw die of a signal that nobody sends to tidy up; one that the others name; one that has not
entered the collective in which the others wait, or left, or came with another shape; one whose log
is missing while all others point elsewhere. Clocks of hosts differ by minutes, so time stamps are
not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rerail.evidence.text.rank_roster import Roster
from rerail.evidence.text.rank_survey import RankRecord
from rerail.evidence.text.signal_words import SRUN_WORDS as _SRUN_WORDS
from rerail.platform.patterns import linear

# Signals that a process dies of; by SIGTERM and SIGABRT launchers and watchdogs end the others.
_DEADLY = {9, 11, 7, 4, 8}
_DIGITS = linear(r"\d+|0x[0-9a-f]+")
FEW = 8  # ranks that may share a root fault, such as all of a host
SHARE = 4  # what more than a quarter of the ranks say is not what sets one of them apart


@dataclass(frozen=True)
class Verdict:
    ranks: tuple[int, ...]  # the first, or those that nothing tells apart
    host: str
    how: str  # own, signal, never-entered, mismatch, left-early, silent, gone, host-lost, missing
    record: RankRecord | None  # of the first
    witnesses: tuple[RankRecord, ...] = ()  # files that say so
    signal: int = 0
    waited: RankRecord | None = None  # a rank that waited
    waiting: int = 0  # how many waited

    @property
    def who(self) -> str:
        if self.how == "host-lost" or (len(self.ranks) > 1 and self.host):
            return f"a rank on {self.host}" if self.how != "host-lost" else f"host {self.host}"
        if len(self.ranks) == 1:
            return f"rank {self.ranks[0]}"
        return "a rank whose log is missing"


def judge(roster: Roster) -> Verdict | None:
    return _Judge(roster).verdict()


class _Judge:
    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._records = roster.ranks
        self._waiting = [r for r in roster.ranks.values() if r.waits is not None]
        count = len(roster.ranks)
        self._few = min(max(FEW, count // 50), max(1, (count - 1) // 2))

    def verdict(self) -> Verdict | None:
        deaths = self._deaths()
        return (
            self._own(deaths)
            or self._by_death(deaths)
            or self._lost_host()
            or self._accused()
            or self._out_of_step()
            or self._silent()
            or self._missing()
        )

    def _made(
        self,
        ranks: Iterable[int],
        how: str,
        witnesses: Iterable[RankRecord] = (),
        signal: int = 0,
        host: str = "",
    ) -> Verdict:
        found = tuple(ranks)
        record = self._records.get(found[0]) if found else None
        if record is None and how in ("never-entered", "silent", "own", "gone"):
            how = "missing"
        waited = self._waiting[0] if self._waiting else None
        if waited is None:
            waited = next(
                (r for r in self._records.values() if r.is_echo and r is not record), None
            )
        return Verdict(
            found,
            host or self._roster.host_of(found[0] if found else None),
            how,
            record,
            tuple(witnesses)[:3],
            signal,
            waited,
            len(self._waiting),
        )

    # -- words of its own

    def _own(self, deaths: dict[int, tuple[int, RankRecord]]) -> Verdict | None:
        groups: dict[str, list[RankRecord]] = {}
        for record in self._records.values():
            if record.own_text:
                groups.setdefault(_DIGITS.sub("", record.own_text)[:120], []).append(record)
        if not groups:
            return None
        named = Counter(rank for rank in self._accusations())
        best = min(
            groups.values(),
            key=lambda same: (
                not any(one.rank in deaths for one in same),
                not any(named[one.rank or 0] for one in same),
                len(same),
            ),
        )
        if len(best) > self._few and deaths:
            return None
        first = min(
            best,
            key=lambda one: (
                one.rank not in deaths,
                -named[one.rank or 0],
                one.step if one.step is not None else 1 << 60,
                one.rank or 0,
            ),
        )
        assert first.rank is not None
        signal, _ = deaths.get(first.rank, (0, first))
        return self._made([first.rank], "own", self._about(first.rank), signal if signal > 0 else 0)

    # -- deaths that a launcher, a scheduler or a kernel saw

    def _deaths(self) -> dict[int, tuple[int, RankRecord]]:
        """By rank: the signal that it died of, and the file that says so."""
        found: dict[int, tuple[int, RankRecord]] = {}
        for record in self._roster.others:
            for rank, signal in self._deaths_in(record):
                if rank not in found and signal in _DEADLY:
                    found[rank] = signal, record
        if len(found) > self._few:  # the end of a job that was killed: the first of each list
            return {}
        return found

    def _deaths_in(self, record: RankRecord) -> list[tuple[int, int]]:
        roster = self._roster
        found: list[tuple[int, int]] = []
        pod = -1
        for name, said in record.said:
            rank: int | None = None
            signal = 0
            if name == "ended-mpirun":
                rank, signal = int(said["rank"]), int(said["signal"])
            elif name == "ended-srun":
                rank = int(said["rank"])
                signal = _SRUN_WORDS.get(said["how"].strip().lower(), 0)
            elif name == "ended-torchrun":
                rank = roster.rank_by_pid(record.host, int(said["pid"]))
                if rank is None:
                    rank = roster.rank_by_place(record.host, int(said["local"]))
                signal = -int(said["code"])
            elif name == "table-rank":
                pod = int(said["rank"])
            elif name == "table-code" and pod >= 0:
                rank, signal = pod, -int(said["code"])
            elif name == "pod-name":
                pod = int(said["rank"])
            elif name == "pod-code" and pod >= 0:
                rank, signal = pod, int(said["code"]) - 128
            elif name in ("killed-kernel", "xid-kernel") and "pid" in said:
                rank = roster.rank_by_pid(record.host, int(said["pid"]))
                signal = 9
            if rank is not None:
                found.append((rank, signal))
        return found

    def _by_death(self, deaths: dict[int, tuple[int, RankRecord]]) -> Verdict | None:
        if deaths:
            rank = min(deaths, key=lambda one: (self._has_words(one), one))
            signal, record = deaths[rank]
            return self._made([rank], "signal", [record, *self._about(rank)], signal)
        for record in self._roster.others:  # DeepSpeed's launcher says how, not who
            for name, said in record.said:
                if name == "ended-deepspeed" and -int(said["code"]) in _DEADLY:
                    ranks = [
                        r for r in self._roster.ranks_of(record.host) if not self._has_words(r)
                    ]
                    if ranks:
                        signal = -int(said["code"])
                        host = record.host
                        return self._made(ranks, "signal", [record, *self._on(host)], signal, host)
        return self._exited()

    def _exited(self) -> Verdict | None:
        """A rank without words whose launcher saw it end with an error.

        Every host's launcher says so of a rank of its own: where there are several, it is the one
        on the host that the others have lost.
        """
        found: dict[int, RankRecord] = {}
        for record in self._roster.others:
            for name, said in record.said:
                rank = self._ended_with_error(record, name, said)
                if rank is None or rank >= max(self._roster.world, 1) or self._has_words(rank):
                    continue
                known = self._records.get(rank)
                if known is None or not known.is_finished:
                    found.setdefault(rank, record)
        if len(found) > 1:
            lost = set(self._lost_peers())
            found = {rank: record for rank, record in found.items() if rank in lost}
        if len(found) != 1:
            return None
        (rank, record), *_ = found.items()
        how = "missing" if rank not in self._records else "signal"
        return self._made([rank], how, [record])

    def _ended_with_error(self, record: RankRecord, name: str, said: dict[str, str]) -> int | None:
        if name == "ended-mpi":
            return int(said["rank"])
        if name == "ended-srun" and said["how"].startswith("Exited with"):
            return int(said["rank"])
        if name == "ended-torchrun" and int(said["code"]) > 0:
            return self._roster.rank_by_place(record.host, int(said["local"]))
        return None

    def _has_words(self, rank: int) -> bool:
        record = self._records.get(rank)
        return record is not None and record.has_words

    def _about(self, rank: int) -> list[RankRecord]:
        """Files of kernels, schedulers and launchers that speak of this rank, or of its host."""
        found = []
        host = self._roster.host_of(rank)
        for record in self._roster.others:
            about_host = record.host.partition(".")[0] == host and host
            kernel = any(name.startswith(("killed-", "xid-", "pod-")) for name, _ in record.said)
            deaths = self._deaths_in(record)
            if (about_host and kernel) or any(
                one == rank and signal in _DEADLY for one, signal in deaths
            ):
                found.append(record)
        return found

    def _on(self, host: str) -> list[RankRecord]:
        return [r for r in self._roster.others if r.host == host and r.said]

    # -- what the others say of it

    def _accusations(self) -> list[int]:
        return [rank for record in self._records.values() for rank in set(record.accused)]

    def _lost_host(self) -> Verdict | None:
        for record in self._roster.others:
            for name, said in record.said:
                if name == "lost-node":
                    host = self._roster.host_named(said["node"])
                    ranks = self._roster.ranks_of(host)
                    return self._made(ranks, "host-lost", [record], host=host)
        return None

    def _accused(self) -> Verdict | None:
        named = Counter(self._accusations())
        if not named:
            return None
        most = named.most_common(1)[0][1]
        ranks = sorted(rank for rank, count in named.items() if count == most)
        hosts = {self._roster.host_of(rank) for rank in ranks}
        if len(ranks) >= self._roster.places and len(hosts) == 1:
            return self._made(ranks, "host-lost", host=hosts.pop())
        first = min(ranks, key=lambda one: (self._has_words(one), one))
        record = self._records.get(first)
        accuser = [r for r in self._records.values() if first in r.accused][:1]
        how = "gone" if accuser and accuser[0].says_gone else "never-entered"
        if record is not None and record.is_finished:
            how = "left-early"
        return self._made([first], how, accuser)

    # -- who is not where the others are

    def _out_of_step(self) -> Verdict | None:
        works = Counter(_work(r) for r in self._waiting if r.waits and "number" in r.waits)
        if works:
            (common, count), *rest = works.most_common()
            odd = [
                r for r in self._waiting if _work(r) != common and r.waits and "number" in r.waits
            ]
            if rest and len(odd) <= self._few and count > len(odd):
                same = [r for r in odd if _work(r)[0] == common[0]]
                if same and same[0].rank is not None:
                    return self._made([same[0].rank], "mismatch", same[:1])
            number = int(common[0])
            behind = [
                r
                for r in self._records.values()
                if r.enqueued is not None and r.enqueued < number and r.rank is not None
            ]
            if 0 < len(behind) <= self._few:
                first = min(behind, key=lambda r: (r.enqueued, r.rank))
                assert first.rank is not None
                how = "left-early" if first.is_finished else "never-entered"
                return self._made([first.rank], how)
        left = [r for r in self._records.values() if r.is_finished and not r.waits]
        if 0 < len(left) <= self._few and len(left) * SHARE < len(self._records):
            first = min(left, key=lambda r: r.rank or 0)
            assert first.rank is not None
            return self._made([first.rank], "left-early")
        return None

    def _silent(self) -> Verdict | None:
        quiet = {rank for rank, r in self._records.items() if not r.has_words and not r.is_finished}
        if not quiet or len(quiet) * 2 > len(self._records):
            return None
        lost = self._lost_peers()
        here = [rank for rank in lost if rank in quiet]
        if len(quiet) == 1:
            return self._made(quiet, "silent")
        hosts = Counter(self._roster.host_of(rank) for rank in quiet)
        host, count = hosts.most_common(1)[0]
        of_host = self._roster.ranks_of(host)
        present = [rank for rank in of_host if rank in self._records]
        if host and len(present) > 1 and count == len(present):
            how = "silent" if self._ended_by_launcher(host) else "host-lost"
            for record in self._on(host):  # its launcher says which of them ended by itself
                for name, said in record.said:
                    rank = self._ended_with_error(record, name, said)
                    if rank in of_host and not self._has_words(rank):
                        gone = "signal" if rank in self._records else "missing"
                        return self._made([rank], gone, [record])
            return self._made(of_host, how, self._on(host), host=host)
        if here:
            return self._made([min(here)], "silent")
        steps = {rank: self._records[rank].step for rank in quiet}
        known = [step for step in steps.values() if step is not None]
        if known and list(steps.values()).count(min(known)) == 1:
            return self._made(
                [min(quiet, key=lambda r: (steps[r] is None, steps[r] or 0))], "silent"
            )
        if len(quiet) <= 2:
            return self._made([min(quiet)], "silent")
        return None

    def _ended_by_launcher(self, host: str) -> bool:
        return any(
            name.startswith("ended-") for record in self._on(host) for name, _ in record.said
        )

    def _lost_peers(self) -> list[int]:
        """The ranks of the host that most of the others have lost."""
        votes = Counter(
            self._roster.host_named(peer)
            for record in self._records.values()
            for peer in set(record.peers)
        )
        if not votes:
            return []
        host, count = votes.most_common(1)[0]
        if count * 2 < sum(votes.values()):
            return []
        return self._roster.ranks_of(host)

    def _missing(self) -> Verdict | None:
        """Nobody whose log is here failed by itself: it is one whose log is not here."""
        missing = self._roster.missing
        telling = sum(r.has_words for r in self._records.values())
        if not missing or telling * 10 < len(self._records) * 7:
            return None
        lost = set(self._lost_peers())
        near = [rank for rank in missing if rank in lost]
        if len(missing) == 1 or len(near) == 1:
            return self._made(near or missing, "missing")
        if near:
            return self._made(near, "missing", host=self._roster.host_of(near[0]))
        verdict = self._made(missing, "missing")
        return Verdict(**{**vars(verdict), "host": ""})


def _work(record: RankRecord) -> tuple[str, str, str]:
    waits = record.waits or {}
    return waits.get("number", ""), waits.get("operation", ""), waits.get("elements", "")
