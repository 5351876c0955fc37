"""How one attempt of a cell ended, read from its record.

In: a run folder that nobody writes any more. Out: a `Verdict` with the cause from the diagnosis,
what the run took, and what `retrying` needs to know. A run that ended well is not diagnosed: that
would cost every healthy cell the time that only a dead one is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from rerail.catalogue import Catalogue, Cause, load_catalogue
from rerail.diagnosis import Candidate
from rerail.experiments import told_to_end
from rerail.records import Outcome
from rerail.remedies import Death, diagnosed_death
from rerail.store import RunFolder, Store
from rerail.study.retrying import Ended
from rerail.study.usage import measure

_WORKER = "loader-worker"
_UNKNOWN = Outcome("unknown", "nobody knows how it ended")


@dataclass(frozen=True)
class Verdict:
    verdict: str  # ok, died, incomplete, interrupted, stopped
    summary: str
    seconds: float
    run: str = ""
    cause: Cause | None = None
    probability: float | None = None
    usage: dict[str, float] = field(default_factory=dict)
    ended: Ended | None = None

    def as_event(self) -> dict[str, object]:
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "seconds": round(self.seconds, 3),
            "run": self.run,
            "cause": self.cause.id if self.cause else None,
            "probability": self.probability,
            "usage": {name: round(value, 3) for name, value in self.usage.items()},
        }


class Examiner:
    """Reads how attempts ended; loads the catalogue only when one has died."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def catalogue(self) -> Catalogue:
        return load_catalogue()

    def dead_worker(self) -> Candidate:
        """What the catalogue knows of a DataLoader worker that died, taken for certain."""
        return Candidate(self.catalogue.dead_worker, 1.0)

    def death(self, folder: RunFolder) -> Death:
        return diagnosed_death(folder, self._store, self.catalogue)

    def examine(self, folder: RunFolder, *, incomplete: str = "") -> Verdict:
        """`incomplete`: it ended well, but this is missing of what it had to leave."""
        info = folder.info()
        outcome = info.outcome or _UNKNOWN
        seconds = info.elapsed_seconds or 0.0
        usage = measure(folder)
        if outcome.kind == "ok" and (told := told_to_end(folder)):
            # It saved its state and ended well, as it should; its work is not finished.
            summary = f"{outcome.summary}, because it was told to: {told}"
            ended = Ended(told_by=told.partition(" ")[0])
            return Verdict("died", summary, seconds, folder.id, usage=usage, ended=ended)
        if outcome.kind == "ok" and not incomplete:
            return Verdict("ok", outcome.summary, seconds, folder.id, usage=usage)
        death = self.death(folder)
        ended = Ended(death, in_worker=_died_in_worker(folder), is_lost=info.state == "lost")
        first = ended.first
        summary = f"{outcome.summary}, but {incomplete}" if incomplete else outcome.summary
        if death.headline and not incomplete:
            summary = f"{summary}: {death.headline}"
        probability = round(first.probability, 3) if first else None
        return Verdict(
            "incomplete" if incomplete else "died",
            summary,
            seconds,
            folder.id,
            cause=first.cause if first else None,
            probability=probability,
            usage=usage,
            ended=ended,
        )

    def lost(self, why: str) -> Verdict:
        """Its recorder was killed before there was a record."""
        return Verdict("died", why, 0.0, ended=Ended(is_lost=True))

    def interrupted(self, folder: RunFolder | None, why: str) -> Verdict:
        if folder is None:
            return Verdict("interrupted", why, 0.0)
        info = folder.info()
        return Verdict(
            "interrupted", why, info.elapsed_seconds or 0.0, folder.id, usage=measure(folder)
        )

    def stopped(self, folder: RunFolder, why: str) -> Verdict:
        """By the study itself, for a limit."""
        info = folder.info()
        return Verdict(
            "stopped", why, info.elapsed_seconds or 0.0, folder.id, usage=measure(folder)
        )


def ended_by_itself(folder: RunFolder) -> bool:
    """Whether it has ended, and nobody had told it to: then its ending is its own."""
    info = folder.info()
    return info.state == "ended" and info.outcome is not None and not told_to_end(folder)


def _died_in_worker(folder: RunFolder) -> bool:
    everyday = {None, "SIGTERM", "SIGPIPE", "SIGINT", "SIGHUP"}
    return any(p.role == _WORKER and p.signal not in everyday for p in folder.processes())
