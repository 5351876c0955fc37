"""Is another attempt worthwhile? The one rule of `run --restarts` and of `study`.

In: the attempts so far, each with its death. Out: a sentence on why not, or None.

`why_not_again` is the rule: what the cause's file says of `retry` is kept to where the cause is
sure, and a failure that comes back at the same place with nothing changed is not tried again.
`why_stop` adds what belongs to restarts alone: their number, and that a run which somebody stopped
stays stopped. (Whoever wants a study to stop stops the study, not a cell of it.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.remedies.restart.apply import Applied
from rerail.remedies.restart.death import Death

# Recorded deaths of this command at one step, this one among them, that need no further proof.
_ENOUGH_DEATHS = 3
_OWN_FAILURES = 2  # after which an elastic job is better off without this node
_STEP_TOLERANCE = 1
_SECONDS_SHARE = 0.05
_SECONDS_TOLERANCE = 0.3


@dataclass(frozen=True)
class Attempt:
    number: int
    run: str
    remedies: tuple[Applied, ...] = ()
    checkpoint: Path | None = None
    base_step: int | None = 0  # steps before this attempt began; None: not known
    death: Death | None = None

    @property
    def reckoned_step(self) -> int | None:
        """The step at which it died, counted from the very beginning."""
        steps = self.death.counted_steps if self.death else None
        if self.base_step is None or (steps is None and self.base_step == 0):
            return None  # no step was seen: whether its steps can be counted is not known
        return self.base_step + (steps or 0)

    @property
    def died_where(self) -> str:
        """As the program counts, which after a checkpoint goes on from there."""
        if self.death is None:
            return ""
        if self.death.printed_step is None and self.reckoned_step:
            return f"at step {self.reckoned_step}"
        return self.death.where


def why_stop(attempts: Sequence[Attempt], *, has_new_remedy: bool, restarts: int) -> str | None:
    """Why the last attempt is not followed by another; None if it is."""
    last = attempts[-1]
    death = last.death
    if death is None:
        return "it ended well"
    if death.stopped_by:
        return f"it was stopped from outside ({death.stopped_by})"
    if last.number > restarts:
        used = f"all {restarts} restarts are" if restarts > 1 else "the one restart is"
        return f"{used} used up"
    return why_not_again(attempts, has_new_remedy=has_new_remedy, resumes=None)


def why_not_again(
    attempts: Sequence[Attempt], *, has_new_remedy: bool, resumes: bool | None
) -> str | None:
    """Why another attempt after the last one would end the same way; None if it may not.

    `resumes`: whether it goes on from a checkpoint; None where nobody knows.
    """
    last = attempts[-1]
    death = last.death
    if death is None or has_new_remedy:
        return None
    if refuses_checkpoint(last):
        return None  # an older checkpoint is something else to try
    cause = death.sure_cause
    if cause is not None and not cause.policy.may_go_well_unchanged(resumes=resumes):
        if cause.policy.may_go_well_unchanged(resumes=True):
            return (
                f"begun anew it would die of {cause.id} again, and there is no checkpoint to go"
                " on from"
            )
        return f"{cause.id} comes back every time, and there is no remedy to apply"
    if death.is_from_outside:
        return None  # where it was by then says nothing about the program
    if (place := _comes_back_at_one_place(attempts)) is not None:
        return f"{place} died of {death.cause} at the same place: it would do so again"
    if death.deaths_at_this_step >= _ENOUGH_DEATHS and last.checkpoint is None:
        return (
            f"{death.deaths_at_this_step} recorded runs of this command died {death.where}:"
            " it would do so again"
        )
    return None


def why_leave(attempts: Sequence[Attempt], least: int | None, most: int | None) -> str | None:
    """Why this node of an elastic job is not started again; None if it is.

    With `--nnodes 2:3` the launchers of the others go on without it. What only echoes another's
    failure says nothing about this node.
    """
    if least is None or most is None or not least < most:
        return None
    own = [each for each in attempts if each.death is not None and not _is_echo(each.death)]
    if len(own) < _OWN_FAILURES:
        return None
    return (
        f"this node has failed {len(own)} times by itself, and the job can go on without it"
        f" (--nnodes {least}:{most})"
    )


def _is_echo(death: Death) -> bool:
    leading = death.leading
    return leading is None or leading.cause.policy.is_echo or leading.cause.policy.waits_for_others


def _comes_back_at_one_place(attempts: Sequence[Attempt]) -> str | None:
    """Which earlier attempts ended as the last one did, if that is no coincidence.

    Attempts begin shortly before the last death, so of deaths at random two in a row are near each
    other now and then. Where the same failure came elsewhere too, three have to be.
    """
    *before, last = attempts
    shows_steps = any(each.death is not None and each.death.has_steps for each in attempts)
    there = [each for each in before if is_same_end(each, last, shows_steps=shows_steps)]
    is_elsewhere = any(
        each not in there and _is_same_failure(each, last) and _can_be_compared(each, last)
        for each in before
    )
    if len(there) < (2 if is_elsewhere else 1):
        return None
    numbers = " and ".join(str(each.number) for each in there)
    return f"attempt{'s' * (len(there) > 1)} {numbers}"


def refuses_checkpoint(attempt: Attempt) -> bool:
    """Whether the program could not load what it was given."""
    death = attempt.death
    return (
        death is not None
        and attempt.checkpoint is not None
        and not death.counted_steps
        and death.failure.policy.is_of_checkpoint
    )


def is_same_end(one: Attempt, other: Attempt, *, shows_steps: bool) -> bool:
    """The same cause at the same place. `shows_steps`: the program's steps can be seen at all."""
    if one.death is None or other.death is None or not _is_same_failure(one, other):
        return False
    if one.reckoned_step is not None and other.reckoned_step is not None:
        return abs(one.reckoned_step - other.reckoned_step) <= _STEP_TOLERANCE
    return _is_same_place(one.death, other.death, one.checkpoint == other.checkpoint, shows_steps)


def _is_same_failure(one: Attempt, other: Attempt) -> bool:
    if one.death is None or other.death is None:
        return False
    return one.death.failure.is_same_as(other.death.failure, other.death.rivals)


def _can_be_compared(one: Attempt, other: Attempt) -> bool:
    """Whether their places are known well enough to say that they differ."""
    if one.reckoned_step is not None and other.reckoned_step is not None:
        return True
    both_print = all(each.death and each.death.printed_step is not None for each in (one, other))
    return both_print or one.checkpoint == other.checkpoint


def _is_same_place(one: Death, other: Death, began_alike: bool, shows_steps: bool) -> bool:
    if one.counted_steps is not None and other.counted_steps is not None:
        return began_alike and abs(one.counted_steps - other.counted_steps) <= _STEP_TOLERANCE
    if one.printed_step is not None and other.printed_step is not None:
        return one.printed_step == other.printed_step
    if shows_steps:
        return began_alike and not one.has_steps and not other.has_steps
    near = _SECONDS_TOLERANCE + _SECONDS_SHARE * max(one.elapsed_seconds, other.elapsed_seconds)
    return began_alike and abs(one.elapsed_seconds - other.elapsed_seconds) <= near
