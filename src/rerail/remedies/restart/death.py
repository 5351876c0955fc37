"""How an attempt ended: its cause, how far it had come, and whether somebody outside stopped it.

In: the folder of a run that ended. Out: a `Death`; the diagnosis is kept in the folder. What is
restarted and what is not is decided on these records alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rerail.catalogue import Catalogue
from rerail.changes import Profile, read_profile
from rerail.checkpoints import StepClock, read_clock
from rerail.diagnosis import Candidate, Diagnosis, explain_run
from rerail.errors import RerailError
from rerail.investigation import Failure, failure_of
from rerail.records import BlackBox, Outcome
from rerail.store import RunFolder, Store

# Who sends one of these wants the run to end, and would be annoyed to find it running again.
_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_STOPPED_EXIT_CODES = {130: "SIGINT", 143: "SIGTERM", 129: "SIGHUP"}
_LIKELY = 0.5


@dataclass(frozen=True)
class Death:
    run: str
    failure: Failure
    rivals: dict[str, float] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    profile: Profile = field(default_factory=Profile)
    printed_step: int | None = None  # as the program says it
    counted_steps: int | None = None  # since the start of this process
    elapsed_seconds: float = 0.0
    stopped_by: str | None = None  # somebody outside, in words
    deaths_at_this_step: int = 0  # of all recorded runs of this command, if they agree
    clock: StepClock = field(default_factory=StepClock)
    bad_since_unix: float | None = None  # when the loss was no longer finite

    @property
    def cause(self) -> str:
        return self.failure.cause or "an unknown cause"

    @property
    def leading(self) -> Candidate | None:
        """The cause, where it is likely enough to act on."""
        first = self.candidates[0] if self.candidates else None
        return first if first is not None and first.probability >= _LIKELY else None

    @property
    def has_steps(self) -> bool:
        return self.printed_step is not None or self.counted_steps is not None

    @property
    def where(self) -> str:
        step = self.counted_steps if self.printed_step is None else self.printed_step
        return f"at step {step}" if step else f"after {self.elapsed_seconds:.1f} s"


def read_death(folder: RunFolder, store: Store, catalogue: Catalogue) -> Death | None:
    """None if the run ended well."""
    info = folder.info()
    outcome = info.outcome
    if outcome is None or outcome.kind == "ok":
        return None
    diagnosis = explain_run(folder, store.history(info), catalogue=catalogue, keeps=True)
    boxes = _boxes(folder)
    leading = diagnosis.leading
    failure = failure_of(diagnosis, boxes, folder.id)
    box = max(boxes, key=lambda each: each.optimizer_steps, default=None)
    clock = read_clock(box, info.started_unix)
    # Under mixed precision single steps overflow, and training goes on: only if it died of it.
    died_of_it = leading is not None and leading.cause.policy.spoils_checkpoints
    bad_step = box.first_nonfinite_step if box and died_of_it else None
    return Death(
        run=folder.id,
        failure=failure,
        rivals={each.cause.id: each.probability for each in diagnosis.candidates},
        candidates=diagnosis.candidates,
        profile=read_profile(folder),
        printed_step=_whole(diagnosis.facts.get("last_step")),
        counted_steps=box.optimizer_steps if box and box.optimizer_steps else None,
        elapsed_seconds=info.elapsed_seconds or 0.0,
        stopped_by=stopped_by(folder, outcome, diagnosis),
        deaths_at_this_step=_deaths_at_one_step(diagnosis),
        clock=clock,
        bad_since_unix=None if bad_step is None else clock.time_of(bad_step),
    )


def told_to_end(folder: RunFolder) -> str | None:
    """The signal that reached the recorder from outside the run and asks it to end."""
    own = {process.pid for process in folder.processes()}
    for event in folder.events():
        name = event.data.get("signal")
        # A launcher that tells its own ranks to end is part of the run.
        if event.kind != "signal-forwarded" or name not in _STOPPING:
            continue
        if event.data.get("sender_pid") in own:
            continue
        sender = event.data.get("sender_name")
        return f"{name} from {sender}" if sender else str(name)
    return None


def stopped_by(folder: RunFolder, outcome: Outcome, diagnosis: Diagnosis) -> str | None:
    """Who outside the run told it to end, if anybody did."""
    told = told_to_end(folder)
    if told is not None:
        return told
    if outcome.kind == "hang":
        return None  # stopped by rerail itself
    if outcome.signal in _STOPPING:
        return f"{outcome.signal} from outside"
    if outcome.exit_code in _STOPPED_EXIT_CODES:
        name = _STOPPED_EXIT_CODES[outcome.exit_code]
        return f"{name} (exit code {outcome.exit_code})"
    leading = diagnosis.leading
    if leading and leading.cause.policy.is_from_outside and leading.probability >= _LIKELY:
        return leading.cause.id
    return None


def _deaths_at_one_step(diagnosis: Diagnosis) -> int:
    for observation in diagnosis.observations:
        if observation.kind == "history" and observation.data.get("pattern") == "fixed-step":
            return len(observation.data.get("steps", ()))
    return 0


def _boxes(folder: RunFolder) -> Sequence[BlackBox]:
    try:
        return folder.boxes()
    except RerailError:
        return []


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None
