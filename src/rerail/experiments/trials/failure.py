"""Which failure is it? One run's diagnosis comes in; whether it is the one we look for goes out.

A failure is known by its leading cause, and a cause that only says "an exception" also by the
type of the exception. Where a native crash happens may wander, so its place is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rerail.catalogue import Catalogue, Policy, load_catalogue
from rerail.diagnosis import Diagnosis, explain_run
from rerail.platform.signal_names import STOPPING_SIGNALS
from rerail.records import BlackBox
from rerail.store import RunFolder

# A rival of the leading cause that is this likely may as well be the one.
_CLOSE = 0.25
_LIKELY = 0.5


@dataclass(frozen=True)
class Failure:
    """What is under investigation."""

    cause: str | None  # None: the catalogue has no name for it
    kind: str
    signal: str | None
    exit_code: int | None
    exception: str | None
    summary: str
    run: str

    @property
    def is_a_hang(self) -> bool:
        return self.kind == "hang"

    @property
    def has_one_place(self) -> bool:
        """Whether it comes at one place if it comes in every run; the clock need not show it."""
        return self.is_a_hang or self.policy.is_certain

    @property
    def is_a_lack(self) -> bool:
        """Whether it is a lack of memory, or of something alike, which a change may only delay."""
        return lack_of(self.cause) is not None

    @property
    def is_of_the_program(self) -> bool:
        """Whether the program raised it itself: threads and libraries have no part in it."""
        is_raised = self.kind == "exit" and self.exception is not None
        return is_raised and (self.policy.is_certain or self.policy.is_told_by_exception)

    @property
    def policy(self) -> Policy:
        return load_catalogue().policy_of(self.cause)

    def to_json(self) -> dict[str, Any]:
        return vars(self).copy()

    def is_same_as(self, other: Failure, rivals: dict[str, float]) -> bool:
        """Whether `other`, whose causes have these probabilities, is this failure again."""
        if self.cause is None or other.cause is None:
            return (self.kind, self.signal, self.exit_code) == (
                other.kind,
                other.signal,
                other.exit_code,
            )
        if self.cause == other.cause:
            if self.policy.is_told_by_exception and self.exception and other.exception:
                return self.exception == other.exception
            return True
        if other.cause in self.policy.same_damage_as:
            return True
        return rivals.get(self.cause, 0.0) >= _CLOSE


def lack_of(cause: str | None) -> str | None:
    """The cause, if it is that memory or something alike ran out."""
    catalogue = load_catalogue()
    is_a_lack = cause is not None and cause in catalogue and catalogue[cause].family == "memory"
    return cause if is_a_lack else None


@dataclass(frozen=True)
class Ending:
    """How one run ended: its failure, if it failed."""

    failure: Failure | None
    rivals: dict[str, float]
    causes: Sequence[Any] = ()
    phase: str | None = None  # what the run was at


class Diagnostician:
    """Reads the ends of runs, with one catalogue for all of them."""

    def __init__(self, catalogue: Catalogue | None = None) -> None:
        self.catalogue = catalogue or load_catalogue()

    def ending(self, folder: RunFolder, *, keeps: bool = True) -> Ending:
        diagnosis = explain_run(folder, catalogue=self.catalogue, keeps=keeps)
        rivals = {c.cause.id: c.probability for c in diagnosis.candidates}
        if not _has_failed(diagnosis):
            return Ending(None, rivals)
        failure = failure_of(diagnosis, folder.boxes(), folder.id)
        phase = diagnosis.facts.get("phase")
        return Ending(failure, rivals, diagnosis.candidates, phase)


def _has_failed(diagnosis: Diagnosis) -> bool:
    """Also when a wrapper ended with 0 although what it ran had died."""
    if diagnosis.outcome.kind != "ok":
        return True
    return diagnosis.leading is not None and diagnosis.leading.probability >= _LIKELY


def failure_of(diagnosis: Diagnosis, boxes: Sequence[BlackBox], run: str) -> Failure:
    leading, outcome = diagnosis.leading, diagnosis.outcome
    return Failure(
        cause=leading.cause.id if leading else None,
        kind=outcome.kind,
        signal=outcome.signal,
        exit_code=outcome.exit_code,
        exception=next((box.exception_type for box in boxes if box.exception_type), None),
        summary=outcome.summary,
        run=run,
    )


def told_to_end(folder: RunFolder) -> str | None:
    """The signal that reached the recorder from outside the run and asks it to end."""
    own = {process.pid for process in folder.processes()}
    for event in folder.events():
        name = event.data.get("signal")
        # A launcher that tells its own ranks to end is part of the run.
        if event.kind != "signal-forwarded" or name not in STOPPING_SIGNALS:
            continue
        if event.data.get("sender_pid") in own:
            continue
        sender = event.data.get("sender_name")
        return f"{name} from {sender}" if sender else str(name)
    return None
