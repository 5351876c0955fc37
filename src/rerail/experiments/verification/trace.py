"""What a run was like step by step: when each step was done, its loss, and the memory in use.

In: a run folder, over or still running (then looked into again and again, as a black box keeps only
its last few hundred steps). Out: a `Trace`, from which costs are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rerail.errors import RerailError
from rerail.records import BlackBox
from rerail.store import RunFolder, training_box

_MOST_STEPS = 50_000


@dataclass
class Trace:
    run: str = ""
    done_t_seconds: dict[int, float] = field(default_factory=dict)  # by step
    losses: dict[int, float] = field(default_factory=dict)
    rss: list[tuple[float, int]] = field(default_factory=list)  # time and bytes of the tree
    is_added_up: bool = False  # an older recording: shared pages count in every process

    def take(self, boxes: list[BlackBox]) -> None:
        """Add what the black box of the training shows now."""
        box = training_box(boxes)
        if box is None or len(self.done_t_seconds) > _MOST_STEPS:
            return
        for point in box.history:
            self.done_t_seconds[point.step] = point.t_seconds
            if point.loss is not None:
                self.losses[point.step] = point.loss

    def peak_bytes(self, until_t_seconds: float | None = None) -> int | None:
        sizes = [s for t, s in self.rss if until_t_seconds is None or t <= until_t_seconds]
        return max(sizes, default=None)

    def step_seconds(self) -> dict[int, float]:
        """How long each step took, where the one before it is known too."""
        return {
            step: t - self.done_t_seconds[step - 1]
            for step, t in self.done_t_seconds.items()
            if step - 1 in self.done_t_seconds
        }


def read_trace(folder: RunFolder, trace: Trace | None = None) -> Trace:
    """Of a run that is over; `trace` holds what was seen of it while it ran."""
    trace = trace or Trace()
    trace.run = folder.id
    try:
        trace.take(folder.boxes())
        vitals, recent = list(folder.vitals()), list(folder.recent_vitals())
        notions = {row.memory_notion for row in (*vitals, *recent)}
        trace.is_added_up = "resident, added up" in notions
        for row in vitals:
            highest = row.maximum.get("tree.rss_bytes", row.tree.rss_bytes)
            trace.rss.append((row.t_seconds, int(highest)))
        trace.rss += [(row.t_seconds, row.tree.rss_bytes) for row in recent]
    except RerailError:
        pass  # what can be read is what there is
    return trace
