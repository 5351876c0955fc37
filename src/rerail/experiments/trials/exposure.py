"""How far did a run come? In steps where they are counted, else batches, else seconds.

In: a run folder, live or over. Out: a `Distance`. One unit is used for a whole investigation,
chosen from the run that showed the failure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.errors import RerailError
from rerail.recorder import FIRST_PHASE_SECONDS
from rerail.records import BlackBox, PrintedPoint, VitalsRow
from rerail.store import RunFolder, box_of_output, has_counted, liveness, training_box
from rerail.wording import seconds_in_words

_PRINTED_BYTES = 16 * 1024  # of printed progress: the last hundred rows and the first

Unit = Literal["steps", "batches", "seconds"]
# Two runs of one program on an idle machine differ by about a tenth in the processors they use.
_SAME_PACE = 0.9


@dataclass(frozen=True)
class Distance:
    steps: int
    batches: int
    seconds: float
    first_step_seconds: float | None = None  # when the first step of those kept was done
    steps_per_second: float | None = None
    is_coarse: bool = False  # the steps are printed too seldom to tell how long it lived
    is_printed: bool = False  # of steps that were only printed, a crash may have lost some

    @property
    def counts_steps(self) -> bool:
        """Whether a run of this program that shows no step made none."""
        return self.unit() == "steps" and not self.is_printed

    def unit(self) -> Unit:
        """The finest that this run counts in."""
        if self.steps > 0 and not self.is_coarse:
            return "steps"
        return "batches" if self.batches > 0 else "seconds"

    def of(self, unit: Unit, *, died: bool) -> float:
        """Exposure; a run that died is charged the step that it died in."""
        if unit == "seconds":
            return max(self.seconds, 0.001)
        return float((self.steps if unit == "steps" else self.batches) + (1 if died else 0))


def exposure_in_words(exposure: float, unit: Unit) -> str:
    if unit == "seconds":
        return seconds_in_words(exposure)
    noun = {"steps": "step", "batches": "batch"}[unit]
    count = round(exposure)
    if count == 1:
        return f"1 {noun}"
    return f"{count} {'batches' if unit == 'batches' else 'steps'}"


def measure(folder: RunFolder, seconds: float, *, may_hang: bool = False) -> Distance:
    """Ranks step together, and workers fetch for one: the one that is furthest tells.

    `may_hang`: the failure that is looked for is a hang, so that a run whose end was not its own
    is taken to have lived up to its last sign of life.
    """
    try:
        boxes = folder.boxes()
    except RerailError:
        boxes = []
    printed = [] if has_counted(boxes) else _printed(folder)
    first, rate = _pace([*boxes, *filter(None, [box_of_output(printed)])])
    steps = max((box.optimizer_steps for box in boxes), default=0)
    return Distance(
        steps=printed[-1].steps if printed else steps,
        batches=max((box.batches for box in boxes), default=0),
        seconds=round(_lived_seconds(folder, seconds, may_hang), 3),
        first_step_seconds=first,
        steps_per_second=rate,
        is_coarse=bool(printed) and not printed[-1].tells_life,
        is_printed=bool(printed),
    )


def _printed(folder: RunFolder) -> list[PrintedPoint]:
    """What the output said of steps: for a program whose steps no agent counts."""
    try:
        return folder.printed_progress(_PRINTED_BYTES)
    except RerailError:
        return []


def _lived_seconds(folder: RunFolder, seconds: float, may_hang: bool) -> float:
    """Waiting for a run that hangs is not exposure."""
    try:
        info = folder.info()
        if info.outcome is not None and info.outcome.kind == "hang":
            return _until_it_hung(folder, seconds)
        if not may_hang:
            return seconds
        # The recorder would have said so if it were silent for longer than it allows.
        patience = info.settings.get("stall_seconds") or FIRST_PHASE_SECONDS
        heard = folder.last_output_unix()
        spoke = heard - info.started_unix if heard is not None else 0.0
        return max(0.0, min(seconds, max(spoke, seconds - patience)))
    except RerailError:
        return seconds


def _until_it_hung(folder: RunFolder, seconds: float) -> float:
    """By its last progress, if it showed some for longer than it was silent. A program that says
    little may have hung long after that: then by its use of the processor, and if it spins in its
    hang, in the end by the clock, since too long a life makes a clean run count for less."""
    stalls = folder.stalls()
    if not stalls:
        return seconds
    silent = stalls[-1].silent_seconds
    lived = stalls[-1].t_seconds - silent
    if lived < silent:
        lived = max(lived, seconds - idle_seconds(folder.recent_vitals()))
    return max(0.0, min(seconds, lived))


def resolution_of(unit: Unit, crashes: Sequence[float], *, at_one_place: bool = False) -> float:
    """Return how exactly a time of death is known; seconds vary with the machine's load.

    `at_one_place`: the failure came in every run, and of a kind that has one place; the times only
    differ because they are not exactly known, as those of a hang.
    """
    if unit != "seconds":
        return 1.0
    longest = max(crashes, default=1.0)
    spread = longest - min(crashes, default=1.0) if at_one_place else 0.0
    return max(0.2, 0.1 * longest, spread)


def elapsed_seconds(folder: RunFolder, asked: float) -> float:
    """Of a run that was asked for at `asked` on the monotonic clock: by its own start, if here."""
    now = time.monotonic()
    try:
        if folder.info().recorder_scope == liveness.scope():
            return max(0.0, now - folder.t0_ns / 1e9)
    except RerailError:
        pass
    return now - asked


def idle_seconds(rows: Sequence[VitalsRow]) -> float:
    """How long, up to the last of these, next to no processor time was used."""
    used = idle = 0.0
    for later, row in zip(rows[:0:-1], rows[-2::-1], strict=True):
        # A process that ended takes its time with it: only what is added counts.
        used += max(0.0, later.tree.cpu_seconds - row.tree.cpu_seconds)
        stretch = rows[-1].t_seconds - row.t_seconds
        if used > 0.03 * stretch + 0.03:
            break
        idle = stretch
    return idle


def share_of_its_pace(rows: Sequence[VitalsRow], busy_share: float) -> float:
    """How fast a run went, by the processor time that it got: 1.0 as fast as the run that used
    `busy_share` processors on average, less if others took some of them away.

    A change that needs less processor time looks slow too. That is the careful side: its clean
    stretch counts for less than it was.
    """
    if not rows or busy_share <= 0.0:
        return 1.0
    got = rows[-1].tree.cpu_seconds / max(rows[-1].t_seconds, 0.1)
    share = got / busy_share
    return share if share < _SAME_PACE else 1.0


def _pace(boxes: Sequence[BlackBox]) -> tuple[float | None, float | None]:
    box = training_box(boxes)
    if box is None or len(box.history) < 2:
        return None, None
    first, last = box.history[0], box.history[-1]
    if last.step <= first.step or last.t_seconds <= first.t_seconds:
        return None, None
    return first.t_seconds, (last.step - first.step) / (last.t_seconds - first.t_seconds)
