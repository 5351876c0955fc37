"""How one attempt of a cell ended, read from its record.

In: a run folder that nobody writes any more. Out: a `Verdict` with the cause from the diagnosis,
what the run took, and what `retrying` needs to know. A run that ended well is not diagnosed: that
would cost every healthy cell the time that only a dead one is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rerail.catalogue import Cause
from rerail.diagnosis import Candidate
from rerail.investigation import Diagnostician
from rerail.records import Outcome
from rerail.remedies import told_to_end
from rerail.store import RunFolder
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

    def __init__(self) -> None:
        self._diagnostician: Diagnostician | None = None

    @property
    def diagnostician(self) -> Diagnostician:
        if self._diagnostician is None:
            self._diagnostician = Diagnostician()
        return self._diagnostician

    def dead_worker(self) -> Candidate:
        """What the catalogue knows of a DataLoader worker that died, taken for certain."""
        return Candidate(self.diagnostician.catalogue.dead_worker, 1.0)

    def examine(self, folder: RunFolder, *, incomplete: str = "") -> Verdict:
        """`incomplete`: it ended well, but this is missing of what it had to leave."""
        info = folder.info()
        outcome = info.outcome or _UNKNOWN
        seconds = info.elapsed_seconds or 0.0
        usage = measure(folder)
        if outcome.kind == "ok" and (told := told_to_end(folder)):
            # It saved its state and ended well, as it should; its work is not finished.
            summary = f"{outcome.summary}, because it was told to: {told}"
            ended = Ended("signal", told.partition(" ")[0], was_told_to_end=True)
            return Verdict("died", summary, seconds, folder.id, usage=usage, ended=ended)
        if outcome.kind == "ok" and not incomplete:
            return Verdict("ok", outcome.summary, seconds, folder.id, usage=usage)
        ending = self.diagnostician.ending(folder)
        leading = ending.causes[0] if ending.failure and ending.causes else None
        summary = f"{outcome.summary}, but {incomplete}" if incomplete else outcome.summary
        probability = round(leading.probability, 3) if leading else None
        return Verdict(
            "incomplete" if incomplete else "died",
            summary,
            seconds,
            folder.id,
            cause=leading.cause if leading else None,
            probability=probability,
            usage=usage,
            ended=Ended(
                kind=outcome.kind,
                signal=outcome.signal,
                leading=leading,
                is_recorded=leading is not None and _has_record(leading),
                in_worker=_died_in_worker(folder),
                is_lost=info.state == "lost",
            ),
        )

    def lost(self, why: str) -> Verdict:
        """Its recorder was killed before there was a record."""
        ended = Ended("unknown", None, is_lost=True)
        return Verdict("died", why, 0.0, ended=ended)

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


def _has_record(candidate: Candidate) -> bool:
    """Whether the kernel says so: a SIGKILL alone may be anybody's."""
    return any(o.kind in ("oom-kill", "kernel-line") for o in candidate.speaks_for)


def _died_in_worker(folder: RunFolder) -> bool:
    everyday = {None, "SIGTERM", "SIGPIPE", "SIGINT", "SIGHUP"}
    return any(p.role == _WORKER and p.signal not in everyday for p in folder.processes())
