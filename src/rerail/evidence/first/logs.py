"""Who failed first, in a job of many logs.

In: a `Roster`. Out: a `Verdict` whose source says in which files it is seen. Clocks of hosts differ
by minutes, so time stamps are not compared: of several ranks with words of their own, the first is
the one whose words the fewest share, and then comes one that a launcher, a scheduler or a kernel
saw die of a signal that nobody sends to tidy up (docs/design/who-failed-first-in-a-thousand-
logs.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from rerail.evidence.first.launchers import (
    DEADLY,
    deaths_in,
    ended_with_error,
    is_of_a_kernel,
    lost_node,
    signals_of_deepspeed,
    speaks_of_an_end,
)
from rerail.evidence.first.model import Actor, ActorStanding, Verdict, Wait
from rerail.evidence.first.rules import Scene
from rerail.evidence.first.words import how_it_ended
from rerail.evidence.text.rank_roster import Roster
from rerail.evidence.text.rank_survey import RankRecord
from rerail.platform.patterns import linear
from rerail.platform.signal_names import OF_LINUX as SIGNAL_NAMES

_DIGITS = linear(r"\d+|0x[0-9a-f]+")
FEW = 8  # ranks that may share a root fault, such as all of a host
SHARE = 4  # what more than a quarter of the ranks say is not what sets one of them apart


@dataclass(frozen=True)
class Seen:
    """Where it is seen."""

    record: RankRecord | None  # of the actor itself; None: its log is not among the files
    host: str = ""
    witnesses: tuple[RankRecord, ...] = ()  # files that say so
    signal: int = 0


Found = Verdict[Seen]
Logged = ActorStanding[Seen]


def judge(roster: Roster) -> Found | None:
    """Return who was first, who waited for it, and in `others` one that lost another rank."""
    scene = _Logs(roster)
    found = scene.verdict()
    if found is None:
        return None
    own = found.first.source.record if found.first is not None else None
    echoes = (r for r in roster.ranks.values() if r.is_echo and r is not own)
    waiting = [scene.of_record(record) for record in scene.waiting]
    return replace(found, waiting=waiting, others=[scene.of_record(r) for r in islice(echoes, 1)])


class _Logs(Scene[Seen]):
    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._records = roster.ranks
        self.waiting = [r for r in roster.ranks.values() if r.waits is not None]
        count = len(roster.ranks)
        self._few = min(max(FEW, count // 50), max(1, (count - 1) // 2))
        self._named = Counter(
            rank for record in self._records.values() for rank in set(record.accused)
        )
        self._deaths = self._seen_deaths()
        own = (self._raised(), self._died(), self._died_on_a_host(), self._exited(), self._lost())
        super().__init__([replace(s, place=(at,)) for at, s in enumerate(own) if s is not None])

    def of_record(self, record: RankRecord) -> Logged:
        return self._stood([] if record.rank is None else [record.rank])

    def _stood(
        self,
        ranks: Iterable[int],
        how: str = "",
        shown_by: str = "",
        host: str | None = None,
        witnesses: Iterable[RankRecord] = (),
        signal: int = 0,
    ) -> Logged:
        """`host`: that it is on, if nothing tells its ranks apart; a lost host by its name."""
        found = tuple(ranks)
        record = self._records.get(found[0]) if found else None
        if host is None:
            host = self._roster.host_of(found[0] if found else None)
        seen = Seen(record, host, tuple(witnesses)[:3], signal)
        return ActorStanding(_actor(found, host), seen, how, shown_by=shown_by)

    def _lost_host(
        self, host: str, ranks: list[int], shown_by: str, witnesses: Iterable[RankRecord] = ()
    ) -> Logged:
        lost = self._stood(ranks, "lost", shown_by, host, witnesses)
        name = f"host {host}" if host else f"the host of ranks {ranks[0]:,} to {ranks[-1]:,}"
        return replace(lost, actor=Actor("node", name, lost.actor.ranks))

    # -- words of its own

    def _raised(self) -> Logged | None:
        """The rank with a failure in its own words; of several, whose words the fewest share."""
        groups: dict[str, list[RankRecord]] = {}
        for record in self._records.values():
            if record.own_text:
                groups.setdefault(_DIGITS.sub("", record.own_text)[:120], []).append(record)
        if not groups:
            return None
        best = min(
            groups.values(),
            key=lambda same: (
                not any(one.rank in self._deaths for one in same),
                not any(self._named[one.rank or 0] for one in same),
                len(same),
            ),
        )
        if len(best) > self._few and self._deaths:
            return None
        first = min(
            best,
            key=lambda one: (
                one.rank not in self._deaths,
                -self._named[one.rank or 0],
                one.step if one.step is not None else 1 << 60,
                one.rank or 0,
            ),
        )
        assert first.rank is not None
        signal, _ = self._deaths.get(first.rank, (0, first))
        about = self._about(first.rank)
        return self._stood([first.rank], "raised", "words", None, about, max(0, signal))

    # -- ends that a launcher, a scheduler or a kernel saw

    def _seen_deaths(self) -> dict[int, tuple[int, RankRecord]]:
        """By rank: the signal that it died of, and the file that says so."""
        found: dict[int, tuple[int, RankRecord]] = {}
        for record in self._roster.others:
            for rank, signal in deaths_in(record, self._roster):
                if rank not in found and signal in DEADLY:
                    found[rank] = signal, record
        # Of more ranks it is the end of a job that was killed: each list names its first.
        return found if len(found) <= self._few else {}

    def _died(self) -> Logged | None:
        if not self._deaths:
            return None
        rank = min(self._deaths, key=lambda one: (self._has_words(one), one))
        signal, record = self._deaths[rank]
        witnesses = [record, *self._about(rank)]
        return self._stood([rank], _how(signal), "launcher", None, witnesses, signal)

    def _died_on_a_host(self) -> Logged | None:
        """DeepSpeed's launcher says how, not who."""
        for record in self._roster.others:
            for signal in signals_of_deepspeed(record):
                ranks = [r for r in self._roster.ranks_of(record.host) if not self._has_words(r)]
                if ranks:
                    witnesses, how = [record, *self._on(record.host)], _how(signal)
                    return self._stood(ranks, how, "launcher", record.host, witnesses, signal)
        return None

    def _exited(self) -> Logged | None:
        """A rank without words whose launcher saw it end with an error.

        Every host's launcher says so of a rank of its own: where there are several, it is the one
        on the host that the others have lost.
        """
        found: dict[int, RankRecord] = {}
        for record in self._roster.others:
            for rank in ended_with_error(record, self._roster):
                if rank >= max(self._roster.world, 1) or self._has_words(rank):
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
        return self._ended_without_words(rank, record)

    def _ended_without_words(self, rank: int, record: RankRecord) -> Logged:
        if rank not in self._records:
            return self._stood([rank], "lost", "missing-log", None, [record])
        return self._stood([rank], "exited", "launcher", None, [record])

    def _lost(self) -> Logged | None:
        for record in self._roster.others:
            if host := lost_node(record, self._roster):
                return self._lost_host(host, self._roster.ranks_of(host), "launcher", [record])
        return None

    def _has_words(self, rank: int) -> bool:
        record = self._records.get(rank)
        return record is not None and record.has_words

    def _about(self, rank: int) -> list[RankRecord]:
        """Files of kernels, schedulers and launchers that speak of this rank, or of its host."""
        host = self._roster.host_of(rank)
        found = []
        for record in self._roster.others:
            is_of_host = bool(host) and record.host.partition(".")[0] == host
            deaths = deaths_in(record, self._roster)
            if (is_of_host and is_of_a_kernel(record)) or any(
                one == rank and signal in DEADLY for one, signal in deaths
            ):
                found.append(record)
        return found

    def _on(self, host: str) -> list[RankRecord]:
        return [r for r in self._roster.others if r.host == host and r.said]

    # -- what the others say of it

    def was_accused(self) -> Found | None:
        if not self._named:
            return None
        most = self._named.most_common(1)[0][1]
        ranks = sorted(rank for rank, count in self._named.items() if count == most)
        hosts = {self._roster.host_of(rank) for rank in ranks}
        if len(ranks) >= self._roster.places and len(hosts) == 1:
            return _verdict(self._lost_host(hosts.pop(), ranks, "peers"))
        first = min(ranks, key=lambda one: (self._has_words(one), one))
        record = self._records.get(first)
        accuser = [r for r in self._records.values() if first in r.accused][:1]
        if record is None:
            return _verdict(self._stood([first], "lost", "missing-log", None, accuser))
        how = "lost" if accuser and accuser[0].says_gone else "stuck"
        how = "left" if record.is_finished else how
        return _verdict(self._stood([first], how, "peers", None, accuser))

    # -- who is not where the others are

    def called_another(self) -> Found | None:
        numbered = [r for r in self.waiting if r.waits and "number" in r.waits]
        if not numbered:
            return None
        common, count = Counter(map(_work, numbered)).most_common(1)[0]
        odd = [r for r in numbered if _work(r) != common]
        same = [r for r in odd if _work(r)[0] == common[0]]
        is_clear = len(odd) <= self._few and count > len(odd)
        if not is_clear or not same or same[0].rank is None:
            return None
        ranks = [same[0].rank]
        return _verdict(self._stood(ranks, "mismatch", "collectives", None, same[:1]))

    def waits(self) -> list[Wait[Seen]]:
        """Who had enqueued less than the others wait for; then who has finished and waits not."""
        first = [each for each in (self._behind(), self._finished()) if each is not None]
        found = []
        for record in first:
            how = "left" if record.is_finished else ""
            absent = replace(self.of_record(record), how=how, shown_by="collectives")
            found.append(Wait[Seen]([], absent=[absent]))
        return found

    def _behind(self) -> RankRecord | None:
        works = Counter(_work(r) for r in self.waiting if r.waits and "number" in r.waits)
        if not works:
            return None
        number = int(works.most_common(1)[0][0][0])
        behind = [
            (r.enqueued, r.rank, r)
            for r in self._records.values()
            if r.enqueued is not None and r.enqueued < number and r.rank is not None
        ]
        return min(behind, key=lambda each: each[:2])[2] if 0 < len(behind) <= self._few else None

    def _finished(self) -> RankRecord | None:
        left = [r for r in self._records.values() if r.is_finished and not r.waits]
        is_apart = 0 < len(left) <= self._few and len(left) * SHARE < len(self._records)
        return min(left, key=lambda r: r.rank or 0) if is_apart else None

    # -- who says nothing

    def was_silent(self) -> Found | None:
        quiet = {rank for rank, r in self._records.items() if not r.has_words and not r.is_finished}
        if not quiet or len(quiet) * 2 > len(self._records):
            return None
        if len(quiet) > 1 and (of_host := self._silent_host(quiet)) is not None:
            return _verdict(of_host)
        rank = self._silent_rank(quiet)
        return None if rank is None else _verdict(self._stood([rank], "stuck", "silence"))

    def _silent_host(self, quiet: set[int]) -> Logged | None:
        """All of a host say nothing; its launcher may say which of them ended by itself."""
        hosts = Counter(self._roster.host_of(rank) for rank in quiet)
        host, count = hosts.most_common(1)[0]
        ranks = self._roster.ranks_of(host)
        present = [rank for rank in ranks if rank in self._records]
        if not host or len(present) < 2 or count != len(present):
            return None
        said = self._on(host)
        for record in said:
            for rank in ended_with_error(record, self._roster):
                if rank in ranks and not self._has_words(rank):
                    return self._ended_without_words(rank, record)
        if any(map(speaks_of_an_end, said)):
            return self._stood(ranks, "stuck", "silence", host, said)
        return self._lost_host(host, ranks, "silence", said)

    def _silent_rank(self, quiet: set[int]) -> int | None:
        """The only one, one on the host that the others lost, the one that came least far."""
        here = quiet.intersection(self._lost_peers())
        if len(quiet) == 1 or here:
            return min(here or quiet)
        steps = {rank: step for rank in quiet if (step := self._records[rank].step) is not None}
        last = [rank for rank, step in steps.items() if step == min(steps.values())]
        if len(last) == 1:
            return last[0]
        return min(quiet) if len(quiet) <= 2 else None

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
        return self._roster.ranks_of(host) if count * 2 >= sum(votes.values()) else []

    def left_no_log(self) -> Found | None:
        """Nobody whose log is here failed by itself: it is one whose log is not here."""
        missing = self._roster.missing
        telling = sum(r.has_words for r in self._records.values())
        if not missing or telling * 10 < len(self._records) * 7:
            return None
        lost = set(self._lost_peers())
        near = [rank for rank in missing if rank in lost]
        one = near if near else missing
        is_somewhere = bool(near) or len(missing) == 1
        host = self._roster.host_of(one[0]) if is_somewhere else ""
        return _verdict(self._stood(one, "lost", "missing-log", host))


def _actor(ranks: tuple[int, ...], host: str) -> Actor:
    if len(ranks) == 1:
        return Actor("rank", f"rank {ranks[0]}", ranks)
    name = f"a rank on {host}" if len(ranks) > 1 and host else "a rank whose log is missing"
    return Actor("rank", name, ranks)


def _verdict(stood: Logged) -> Found:
    return Verdict(stood.actor, stood.how, stood)


def _how(signal: int) -> str:
    return how_it_ended(SIGNAL_NAMES.get(signal))


def _work(record: RankRecord) -> tuple[str, str, str]:
    waits = record.waits or {}
    return waits.get("number", ""), waits.get("operation", ""), waits.get("elements", "")
