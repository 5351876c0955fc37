"""How an attempt ended: its cause, how far it had come, and whether somebody outside stopped it.

In: the folder of a run that ended. Out: a `Death`; the diagnosis is kept in the folder. What is
restarted and what is not is decided on these records alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rerail.catalogue import Catalogue, Cause
from rerail.changes import Profile, read_profile
from rerail.checkpoints import StepClock, read_clock
from rerail.diagnosis import Candidate, Diagnosis, explain_run
from rerail.errors import RerailError
from rerail.experiments import Failure, failure_of, told_to_end
from rerail.platform.signal_names import OF_LINUX, STOPPING_SIGNALS
from rerail.records import BlackBox
from rerail.store import RunFolder, Store, training_box

LIKELY = 0.5  # likely enough to apply a remedy
SURE = 0.75  # likely enough to give up for
_KERNEL_KINDS = ("oom-kill", "kernel-line")  # the kernel's own record of a kill
# What shows that somebody meant it: words of a scheduler or a launcher, a signal that was seen.
_SHOWN_KINDS = ("line", "outside-signal", "ended-by-ray")


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
    headline: str = ""  # of the diagnosis, where there is a cause

    @property
    def cause(self) -> str:
        return self.failure.cause or "an unknown cause"

    @property
    def leading(self) -> Candidate | None:
        """The cause, where it is likely enough to act on.

        A SIGKILL of which the kernel has no record may be anybody's: its cause must be sure.
        """
        first = self.candidates[0] if self.candidates else None
        if first is None:
            return None
        is_bare = self.failure.signal == "SIGKILL" and not _is_told_by(first, _KERNEL_KINDS)
        return first if first.probability >= (SURE if is_bare else LIKELY) else None

    @property
    def sure_cause(self) -> Cause | None:
        """The cause, where it is likely enough to give up for."""
        leading = self.leading
        return leading.cause if leading is not None and leading.probability >= SURE else None

    @property
    def is_from_outside(self) -> bool:
        return self.leading is not None and self.leading.cause.policy.is_from_outside

    @property
    def has_steps(self) -> bool:
        return self.printed_step is not None or self.counted_steps is not None

    @property
    def where(self) -> str:
        step = self.counted_steps if self.printed_step is None else self.printed_step
        return f"at step {step}" if step else f"after {self.elapsed_seconds:.1f} s"


def read_death(folder: RunFolder, store: Store, catalogue: Catalogue) -> Death | None:
    """None if the run ended well."""
    outcome = folder.info().outcome
    if outcome is None or outcome.kind == "ok":
        return None
    return diagnosed_death(folder, store, catalogue)


def diagnosed_death(folder: RunFolder, store: Store, catalogue: Catalogue) -> Death:
    """Also of a run whose command ended well although its work is not done."""
    info = folder.info()
    diagnosis = explain_run(folder, store.history(info), catalogue=catalogue, keeps=True)
    boxes = _boxes(folder)
    leading = diagnosis.leading
    failure = failure_of(diagnosis, boxes, folder.id)
    box = training_box(boxes)
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
        stopped_by=stopped_by(folder, diagnosis),
        deaths_at_this_step=_deaths_at_one_step(diagnosis),
        clock=clock,
        bad_since_unix=None if bad_step is None else clock.time_of(bad_step),
        headline=diagnosis.headline if leading is not None else "",
    )


def stopped_by(folder: RunFolder, diagnosis: Diagnosis) -> str | None:
    """Who outside the run meant to end it, if somebody can be shown to have done so."""
    info = folder.info()
    outcome = info.outcome or diagnosis.outcome
    told = told_to_end(folder)
    if told is not None:
        return told
    if outcome.kind == "hang":
        return None  # stopped by rerail itself
    if outcome.signal in STOPPING_SIGNALS:
        return f"{outcome.signal} from outside"
    name = OF_LINUX.get((outcome.exit_code or 0) - 128)  # as a shell says it
    if name in STOPPING_SIGNALS:
        return f"{name} (exit code {outcome.exit_code})"
    leading = diagnosis.leading
    if not leading or not leading.cause.policy.is_from_outside or leading.probability < LIKELY:
        return None
    is_bare_kill = _is_told_by(leading, ("no-oom-kill",)) and not _is_told_by(leading, _SHOWN_KINDS)
    if not is_bare_kill:
        return leading.cause.id
    # The commonest death of all, and nobody knows who sent it: machines do, more than people.
    return "SIGKILL, and somebody had a terminal open on it" if info.has_terminal else None


def _is_told_by(candidate: Candidate, kinds: Sequence[str]) -> bool:
    return any(observation.kind in kinds for observation in candidate.speaks_for)


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
