"""From a dry run of a few steps to the peak of the whole run. Pure.

In: a `Rehearsal`. Out: a `Prediction`: memory counted once, as limits count it, and resident sizes
added up, as `rerail run` records them. docs/design/how-is-peak-memory-predicted.md says why each
term is there and what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.preflight.proc_memory import ProcessMemory
from rerail.preflight.rehearsal import Rehearsal, Report

# Heaps fray: what the allocator keeps grows by this share after the first steps.
FRAY_SHARE = 0.01
_UNCERTAIN_SHARE = 0.03


@dataclass(frozen=True)
class Prediction:
    peak_bytes: int
    peak_rss_bytes: int
    mapped_bytes: int  # of peak_bytes: pages of data files, which the kernel can take back
    growth_bytes_per_step: int
    low_bytes: int
    high_bytes: int

    @property
    def held_bytes(self) -> int:
        """What a limit has to hold: all but the pages of mapped data."""
        return self.peak_bytes - self.mapped_bytes


def predict(rehearsal: Rehearsal) -> Prediction:
    by_pid = {process.pid: process for process in rehearsal.processes}
    once = sum(process.pss_bytes for process in rehearsal.processes)
    added = sum(process.rss_bytes for process in rehearsal.processes)
    spread = 0.0
    for report in rehearsal.reports:
        rest = by_pid.get(report.pid)
        if rest is None:
            continue
        above = max(0, report.peak() - rest.rss_bytes)
        once, added = once + above, added + above
        fray = FRAY_SHARE * (rest.anon_bytes + above)
        once, added = once + int(fray), added + int(fray)
        spread += _still_rising(report)
    mapped_now, mapped_then, added_then = _mapped(rehearsal)
    once += mapped_then - mapped_now
    added += added_then
    once, added = once + int(spread), added + int(spread)
    uncertain = _UNCERTAIN_SHARE * (once - mapped_then) + spread
    return Prediction(
        once,
        added,
        mapped_then,
        0,
        int(once - uncertain),
        int(once + uncertain),
    )


def step_peaks(report: Report) -> list[int]:
    """The highest resident size within each step."""
    peaks: dict[int, int] = {}
    for mark in report.marks:
        if mark["mark"] in ("backward done", "step done"):
            step = int(mark["step"]) + (mark["mark"] == "backward done")
            peaks[step] = max(peaks.get(step, 0), int(mark.get("VmHWM", 0)))
    return [peaks[step] for step in sorted(peaks)]


def _still_rising(report: Report) -> float:
    """What the last step added to the highest before: it will add as much again, by halves."""
    peaks = step_peaks(report)
    if len(peaks) < 3:
        return 0.0
    return float(max(0, peaks[-1] - max(peaks[:-1])))


def _mapped(rehearsal: Rehearsal) -> tuple[int, int, int]:
    """Mapped data: resident now (once), resident when all was read, growth of added-up sizes."""
    sizes: dict[str, int] = {}
    now: dict[str, int] = {}
    growth = 0
    for found in rehearsal.mappings.values():
        for mapping in found:
            sizes[mapping.path] = max(sizes.get(mapping.path, 0), mapping.mapped_bytes)
            now[mapping.path] = now.get(mapping.path, 0) + mapping.pss_bytes
            if mapping.rss_bytes > 1 << 20:
                growth += max(0, mapping.mapped_bytes - mapping.rss_bytes)
    total_now = sum(min(now[path], sizes[path]) for path in sizes)
    return total_now, sum(sizes.values()), growth


def workers_of(rehearsal: Rehearsal) -> Sequence[ProcessMemory]:
    training = {report.pid for report in rehearsal.reports}
    roles = {record.pid: record.role for record in rehearsal.records}
    return [
        process
        for process in rehearsal.processes
        if process.pid not in training and roles.get(process.pid) == "loader-worker"
    ]
