"""How did earlier runs of the same command end?

In: this run and earlier ones with the same fingerprint. Out: one `history` observation with the
steps at which they died and the pattern in them, or none when the run did not die.

fixed-step: the same step each time (data or a schedule at that place). accumulation-boundary:
always at the same micro-batch of a cycle. phase-boundary: always in the same phase, and that phase
is not plain training. with-memory: always with memory near its limit. random: steps that differ
widely, as a race or a stray pointer gives. A pattern is claimed from three deaths on, fixed-step
and random from two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.errors import RerailError
from rerail.evidence.run.material import RecordedRun, read_material
from rerail.evidence.run.memory import limit_uses
from rerail.platform.deadline import Deadline
from rerail.records import Observation
from rerail.store import RunFolder
from rerail.wording import counted, listed

MOST_RUNS = 50
_PLAIN_PHASES = {None, "", "train", "training", "forward", "backward", "step", "data"}


@dataclass(frozen=True)
class PastEnd:
    """What history needs of one run."""

    run_id: str
    died: bool
    step: int | None
    phase: str | None
    micro_batch: int | None  # backward calls since the last optimiser step
    accumulation: int | None
    memory_fraction: float | None


def past_ends(history: Sequence[RunFolder], deadline: Deadline) -> list[PastEnd]:
    """Oldest first. A past run that cannot be read is no reason to be silent about this one."""
    runs = []
    for folder in history[:MOST_RUNS]:
        if deadline.skips("earlier runs"):
            break
        try:
            runs.append(read_material(folder, is_past=True))
        except RerailError:
            continue
    runs.sort(key=lambda run: run.info.started_unix)
    return [past_end(run) for run in runs]


def past_end(run: RecordedRun) -> PastEnd:
    box = run.training_box
    outcome = run.info.outcome
    died = outcome is not None and outcome.kind in ("exit", "signal", "hang")
    ratio = box.backward_per_step if box else None
    accumulation = round(ratio) if ratio and ratio >= 1.5 else None
    micro_batch = None
    if box is not None and accumulation:
        micro_batch = box.backward_calls % accumulation
    uses = limit_uses(run)
    return PastEnd(
        run_id=run.info.id,
        died=died,
        step=_step(run),
        phase=box.phase if box else None,
        micro_batch=micro_batch,
        accumulation=accumulation,
        memory_fraction=uses[0].fraction if uses else None,
    )


def _step(run: RecordedRun) -> int | None:
    """As counted; as printed only where each step is, since a death lies between two lines."""
    box = run.training_box
    if box is not None and (box.optimizer_steps or box.batches):
        return box.optimizer_steps
    if run.printed is not None and run.printed.every == 1:
        return run.printed.step
    return box.optimizer_steps if box is not None else None


def pattern_of(ends: Sequence[PastEnd]) -> str | None:
    """The pattern in the deaths; None where there are too few to say."""
    dead = [end for end in ends if end.died and end.step is not None]
    steps = [end.step for end in dead if end.step is not None]
    if len(dead) < 2:
        return None
    spread = max(steps) - min(steps)
    if spread <= max(1, 0.01 * max(steps)):
        return "fixed-step"
    if len(dead) >= 3 and (common := _common_to_all(dead)) is not None:
        return common
    return "random" if spread >= 0.2 * max(steps) else None


def _common_to_all(dead: Sequence[PastEnd]) -> str | None:
    if all((end.memory_fraction or 0) >= 0.95 for end in dead):
        return "with-memory"
    phases = {end.phase for end in dead}
    if len(phases) == 1 and not phases & _PLAIN_PHASES:
        return "phase-boundary"
    micro = {end.micro_batch for end in dead}
    cycles = [end.accumulation for end in dead]
    # By luck all k deaths agree with probability (1/accumulation)^(k-1): claim below 5 %.
    shortest = min((cycle for cycle in cycles if cycle), default=1)
    is_luck = (1 / shortest) ** (len(dead) - 1) >= 0.05
    if len(micro) == 1 and None not in micro and all(cycles) and not is_luck:
        return "accumulation-boundary"
    return None


_PATTERN_WORDS = {
    "fixed-step": "at the same step each time, so the place matters",
    "random": "at a different step each time, at random",
    "phase-boundary": "always in the same phase",
    "accumulation-boundary": "always at the same micro-batch of an accumulation cycle",
    "with-memory": "always with memory near its limit",
}


def read_history(run: RecordedRun, earlier: Sequence[PastEnd]) -> list[Observation]:
    now = past_end(run)
    if not now.died:
        return []
    ends = [*earlier[-MOST_RUNS:], now]
    dead = [end for end in ends if end.died]
    steps = [end.step for end in dead if end.step is not None]
    pattern = pattern_of(ends)
    if len(ends) == 1:
        text = (
            "This is the first recorded run of this command: whether it dies at the same step or "
            "at random is not known yet."
        )
    else:
        text = f"{len(dead)} of {counted(len(ends), 'recorded run')} of this command died"
        if len(steps) > 1:
            text += f", at steps {listed([str(step) for step in steps[-8:]])}"
        text += f": {_PATTERN_WORDS[pattern]}." if pattern else "."
    return [
        Observation(
            "history",
            text,
            f"history:{run.info.id}",
            {
                "runs": len(ends),
                "deaths": len(dead),
                "steps": steps,
                "pattern": pattern,
                "clean_steps": [e.step for e in ends if not e.died and e.step is not None],
            },
        )
    ]
