"""From a dry run of a few steps to the peak of the whole run. Pure.

In: a `Rehearsal`. Out: a `Prediction`: the memory of the tree, each page once, as limits count it
and `rerail run` records it. docs/design/how-is-peak-memory-predicted.md says why each
term is there and what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rerail.preflight.memory.proc_memory import ProcessMemory, counted_once
from rerail.preflight.memory.rehearsal import Rehearsal, Report
from rerail.records import BlackBox

# Heaps become fragmented: two runs of one program differ by the holes between their blocks, which
# depend on where the kernel has put the heap. Holes come about one by one, so that what they add
# goes with the square root of what the steps have added. The end of an epoch stirs a heap up once
# more: a smaller batch, a validation, a checkpoint.
_FRAGMENTATION, _FRAGMENTATION_AFTER_AN_EPOCH = 2.0, 0.5  # times the square root of MiB
_SETTLED_STEPS = 15  # the most of fewer steps is less than it will be
_MOST_FRAGMENTATION_SHARE = 0.4
_UNSETTLED_STEPS = 2  # the first has no optimizer state, the second is the first with everything
# Of what is a forked loader worker's own. Most of a spawned one's is its imports, which are done.
_WORKER_SHARE = 0.05
_REWRITTEN_SHARE = 0.12  # of what was there before the steps: reference counts are written too
_UNCERTAIN_SHARE = 0.03
_UNCERTAIN_BESIDE_WORKERS = 0.10  # forked anew each epoch: what they keep is luck in part
_MIB = 1 << 20


@dataclass(frozen=True)
class Prediction:
    peak_bytes: int
    mapped_bytes: int  # of peak_bytes: pages of data files, which the kernel can take back
    low_bytes: int
    high_bytes: int

    @property
    def held_bytes(self) -> int:
        """What a limit has to hold: all but the pages of mapped data."""
        return self.peak_bytes - self.mapped_bytes


def predict(rehearsal: Rehearsal) -> Prediction:
    if not rehearsal.reports or not rehearsal.still.processes:
        return _as_seen(rehearsal)
    by_pid = {process.pid: process for process in rehearsal.still.processes}
    still = rehearsal.still
    once, mapped_now = counted_once(still.processes, still.mappings)
    once += still.unmapped_bytes
    spread = 0.0
    for report in rehearsal.reports:
        rest = by_pid.get(report.pid)
        if rest is None:
            continue
        above = max(0, report.peak() - rest.rss_bytes)
        once += above
        # Workers that were begun early left a fuller heap than those after a validation will,
        # which makes up for the stirring that was not seen. With one epoch there is none to come.
        is_stirred = _has_seen_an_epoch(report) or report.first_workers_bytes is not None
        is_stirred = is_stirred or not report.loop_comes_again
        fragmented = fragmentation_bytes(_added_by_steps(report), report.steps, is_stirred)
        if report.workers_begun_step:
            # The highest step has the swing of the parent in it already.
            fragmented += max(0, heap_swing_bytes(report) - above)
        once += fragmented
        spread += fragmented
    for worker in workers_of(rehearsal) if _has_forked_workers(rehearsal) else ():
        once += int(_WORKER_SHARE * worker.own_bytes)
    later = kept_by_later_workers(rehearsal)
    later += int(spread) if later else 0  # what is lost to holes is kept twice too
    mapped_then = _mapped(rehearsal)
    once += later + mapped_then - mapped_now
    has_later = later > 0 or any(report.workers_begun_step for report in rehearsal.reports)
    share = _UNCERTAIN_BESIDE_WORKERS if has_later else _UNCERTAIN_SHARE
    uncertain = share * (once - mapped_then) + spread / 2
    return Prediction(
        once,
        mapped_then,
        int(once - uncertain),
        int(once + uncertain),
    )


def _as_seen(rehearsal: Rehearsal) -> Prediction:
    """No steps to reckon from, or a run that is over: what was seen is what there is."""
    once, mapped = counted_once(rehearsal.still.processes, rehearsal.still.mappings)
    peaks = sum(report.peak() for report in rehearsal.reports)
    once = max(once, peaks, rehearsal.sampled_peak_bytes)
    uncertain = int(_UNCERTAIN_SHARE * once)
    return Prediction(once, mapped, once - uncertain, once + uncertain)


def step_peaks(report: Report) -> list[int]:
    """The highest resident size within each step."""
    peaks: dict[int, int] = {}
    for mark in report.marks:
        if mark["mark"] in ("backward done", "step done"):
            step = int(mark["step"]) + (mark["mark"] == "backward done")
            peaks[step] = max(peaks.get(step, 0), int(mark.get("VmHWM", 0)))
    return [peaks[step] for step in sorted(peaks)]


def fragmentation_bytes(added_bytes: int, steps: int, has_seen_an_epoch: bool = False) -> int:
    """What the allocator will still add to what the steps have added."""
    factor = _FRAGMENTATION_AFTER_AN_EPOCH if has_seen_an_epoch else _FRAGMENTATION
    unseen = math.sqrt(max(1.0, _SETTLED_STEPS / max(1, steps)))
    more = factor * unseen * math.sqrt(added_bytes / _MIB) * _MIB
    return int(min(more, _MOST_FRAGMENTATION_SHARE * added_bytes))


def _has_seen_an_epoch(report: Report) -> bool:
    """Whether a loader was gone through anew after the first steps."""
    return any(mark["mark"] == "loop begun" and int(mark["step"]) > 0 for mark in report.marks)


def heap_swing_bytes(report: Report) -> int:
    """How far above its usual level the private memory that a step leaves behind has been.

    Workers are forked from a parent at one of these levels, those of each epoch at another.
    """
    left = [int(m.get("RssAnon", 0)) for m in report.marks if m["mark"] == "step done"]
    settled = left[_UNSETTLED_STEPS:]
    return int(max(settled) - median(settled)) if settled else 0


def _added_by_steps(report: Report) -> int:
    """Gradients, optimizer state, activations: all that was not there before the first step."""
    before = _before_steps(report).get("VmRSS", 0)
    return max(0, max(step_peaks(report), default=0) - before)


def _mapped(rehearsal: Rehearsal) -> int:
    """Mapped data once all of it was read."""
    sizes: dict[str, int] = {}
    for found in rehearsal.still.mappings.values():
        for mapping in found:
            sizes[mapping.path] = max(sizes.get(mapping.path, 0), mapping.mapped_bytes)
    return sum(sizes.values())


def kept_by_later_workers(rehearsal: Rehearsal) -> int:
    """Pages that workers forked in a later epoch keep when their parent writes over them.

    The first workers are forked before the first step. Those of the next epoch, or of the first
    validation, are forked from a parent that holds gradients, optimizer state and the heap of the
    activations; every step writes to all of that, and each page then exists twice.
    """
    total = 0.0
    workers = {process.pid: process for process in workers_of(rehearsal)}
    by_pid = {process.pid: process for process in rehearsal.still.processes}
    parents = {record.pid: record.parent_pid for record in rehearsal.records}
    for report in rehearsal.reports:
        own = [worker for pid, worker in workers.items() if parents.get(pid) == report.pid]
        box = next((box for box in rehearsal.boxes if box.pid == report.pid), None)
        if not own or not report.loop_comes_again:
            continue
        if box is not None and not _forks_each_epoch(box):
            continue
        private = [int(m.get("RssAnon", 0)) for m in report.marks if m["mark"] == "step done"]
        before = _before_steps(report).get("RssAnon", 0)
        added = max(0, int(median(private or [0])) - before)
        begun = report.workers_begun_step
        if begun and report.steps - begun >= 2:
            continue  # of a later epoch already, and measured
        if begun:
            # Part of it is measured, more is still to come.
            tree = sum(process.anon_bytes for process in (*own, by_pid[report.pid]))
            measured = tree - int(report.marks[-1].get("RssAnon", 0))
            total += max(0.0, added + _REWRITTEN_SHARE * before - measured)
        else:
            total += added
    return int(total)


def _has_forked_workers(rehearsal: Rehearsal) -> bool:
    methods = {each.start_method for box in rehearsal.boxes for each in box.loaders if each.workers}
    return methods != {"spawn"}


def _forks_each_epoch(box: BlackBox) -> bool:
    return any(
        loader.workers and loader.start_method == "fork" and not loader.persistent
        for loader in box.loaders
    )


def _before_steps(report: Report) -> dict[str, int]:
    """The last mark before the first step."""
    found: dict[str, int] = {}
    for mark in report.marks:
        if mark["mark"] in ("torch imported", "optimizer made"):
            found = mark
    return found


def workers_of(rehearsal: Rehearsal) -> Sequence[ProcessMemory]:
    """Processes that training processes have started for themselves."""
    training = {report.pid for report in rehearsal.reports}
    parents = {record.pid: record.parent_pid for record in rehearsal.records}
    return [
        process
        for process in rehearsal.still.processes
        if process.pid not in training and parents.get(process.pid) in training
    ]
