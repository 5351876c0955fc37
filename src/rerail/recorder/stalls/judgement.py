"""Is the run hung, or only slow? Pure logic over three counters and a clock.

In, about ten times a second: optimizer steps, bytes of output and CPU seconds of the tree so far.
Out: Stalled at the moment a stretch without progress becomes too long, once per stretch; `over`
tells that it ended. With a threshold given by the user, no step and no output for that long is a
stall whatever the CPU does, since a spinning deadlock burns CPU too; only before the first step is
a tree that works given several times as long, because imports and data preparation are silent.
Without one the threshold comes from the run's own pace, and a tree that works is given several
times the patience of an idle one at any time.
docs/design/how-is-a-hang-told-from-slow-work.md has the reasons.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# Before the first steps nothing is known of the run's pace: imports, downloads, data preparation.
FIRST_PHASE_SECONDS = 600.0
SHORTEST_SECONDS = 60.0
SLOW_STEPS = 20.0  # patience in slow steps: the 95th percentile of the last ones
LONGEST_PAUSES = 3.0  # and in pauses as the run has survived them: validation, checkpoints
BUSY_PATIENCE = 5.0
BUSY_CORES = 0.1  # a tree that uses less than this is idle: pollers and progress threads do
CPU_WINDOW_SECONDS = 10.0
PACES_KEPT = 256
PACES_NEEDED = 5


@dataclass(frozen=True)
class Stalled:
    """A stretch without progress that has become too long."""

    silent_seconds: float
    threshold_seconds: float
    was_idle: bool  # False: CPU was used all the while, so a spinning deadlock or silent work


class StallWatch:
    """Watches one run; `over` holds how long a stall lasted, in the call that saw it end."""

    def __init__(self, threshold_seconds: float | None = None) -> None:
        self._given_seconds = threshold_seconds
        self.over: float | None = None
        self._progress: tuple[int, int] | None = None
        self._progress_t = self._progress_cpu = 0.0
        self._step_t: float | None = None
        self._busy_t = 0.0
        self._cpu_mark = (0.0, 0.0)
        self._has_fired = False
        self._step_paces: deque[float] = deque(maxlen=PACES_KEPT)
        self._longest_pause = 0.0

    def observe(
        self, t: float, steps_total: int, output_bytes_total: int, cpu_seconds_total: float
    ) -> Stalled | None:
        """Take the counters at time `t`; a stall that begins now comes back."""
        self.over = None
        progress = (steps_total, output_bytes_total)
        if self._progress is None:
            self._progress = progress
            self._progress_t = self._busy_t = t
            self._cpu_mark = (t, cpu_seconds_total)
            self._progress_cpu = cpu_seconds_total
            if steps_total > 0:
                self._step_t = t
            return None
        self._watch_cpu(t, cpu_seconds_total)
        if progress != self._progress:
            self._take_progress(t, progress)
            self._progress_cpu = cpu_seconds_total
            return None
        if self._has_fired:
            return None
        silent = t - self._progress_t
        idle = t - max(self._progress_t, self._busy_t)
        threshold = self._given_seconds or self.patience_seconds()
        work_counts = self._given_seconds is None or self._step_t is None
        is_stalled = (idle if work_counts else silent) >= threshold
        if not is_stalled and silent >= threshold * BUSY_PATIENCE:
            threshold *= BUSY_PATIENCE
            is_stalled = True
        if not is_stalled:
            return None
        self._has_fired = True
        used_cores = (cpu_seconds_total - self._progress_cpu) / max(silent, 1e-9)
        return Stalled(silent, threshold, was_idle=used_cores < BUSY_CORES)

    def patience_seconds(self) -> float:
        """How long an idle tree may be silent, from the run's own pace."""
        if len(self._step_paces) < PACES_NEEDED:
            return max(FIRST_PHASE_SECONDS, LONGEST_PAUSES * self._longest_pause)
        paces = sorted(self._step_paces)
        slow = paces[int(0.95 * (len(paces) - 1))]
        return max(SHORTEST_SECONDS, SLOW_STEPS * slow, LONGEST_PAUSES * self._longest_pause)

    def _take_progress(self, t: float, progress: tuple[int, int]) -> None:
        silent = t - self._progress_t
        if self._has_fired:
            self.over = silent
            self._has_fired = False
        self._longest_pause = max(self._longest_pause, silent)
        assert self._progress is not None
        steps = progress[0] - self._progress[0]
        if steps != 0:
            # A counter that falls belongs to another process that has taken over: no pace.
            if self._step_t is not None and steps > 0:
                self._step_paces.append((t - self._step_t) / steps)
            self._step_t = t
        self._progress, self._progress_t = progress, t

    def _watch_cpu(self, t: float, cpu_seconds: float) -> None:
        since, used_before = self._cpu_mark
        # Several looks within the user's threshold, or busy and idle could not be told apart in it.
        if t - since < min(CPU_WINDOW_SECONDS, (self._given_seconds or CPU_WINDOW_SECONDS) / 4):
            return
        if (cpu_seconds - used_before) / (t - since) >= BUSY_CORES:
            self._busy_t = t
        self._cpu_mark = (t, cpu_seconds)
