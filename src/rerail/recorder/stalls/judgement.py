"""Is the run hung, busy without a word, or only slow? Pure logic over four counters and a clock.

In, about once a second: optimizer steps, bytes of output, CPU seconds and bytes of input and output
of the tree so far. Out: Stalled at each moment at which a stretch without progress is to be looked
at; `over` tells that it ended. A tree that uses neither CPU nor moves bytes is
stuck when it has stood still for the threshold: what the user gave, else what the run's own pace
says. One that works is busy: that is said once, and it counts as hung only after a much longer
time. docs/design/how-is-a-hang-told-from-slow-work.md and when-is-a-busy-run-hung.md say why.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# Before the first steps nothing is known of the run's pace: imports, downloads, data preparation.
FIRST_PHASE_SECONDS = 600.0
SHORTEST_SECONDS = 60.0
SLOW_STEPS = 20.0  # patience in slow steps: the 95th percentile of the last ones
LONGEST_PAUSES = 3.0  # and in pauses as the run has survived them: validation, checkpoints
# A tree that works is spoken of after this many times its patience, if that is only estimated.
BUSY_PATIENCE = 5.0
# And it counts as hung after the longer of these two: silence alone does not tell.
BUSY_HANG_PATIENCE = 10.0
BUSY_HANG_SECONDS = 300.0
BUSY_CORES = 0.1  # a tree that uses less than this is idle: pollers and progress threads do
BUSY_BYTES_PER_SECOND = 32 << 10  # heartbeats and log files move less
CPU_WINDOW_SECONDS = 10.0
SILENCE_TO_COUNT_IN = 0.25  # of the patience: a healthy run does not pay for counting
# Who ends a run that stands still does not wait ten minutes for it: so an idle tree is looked at
# early, without a word. A silence that was survived makes the next look come later.
EARLY_SECONDS = 10.0
EARLY_PATIENCE = 2.0
LOOK_AGAIN = 1.5  # times the silence: work may have ended in a spinning wait
PACES_KEPT = 256
PACES_NEEDED = 5
COUNTS_PER_STEP = 5  # at most: the agent counts batches, backward passes and more beside steps


@dataclass(frozen=True)
class Stalled:
    """A stretch without progress that has become too long."""

    silent_seconds: float
    threshold_seconds: float
    was_idle: bool  # False: it works, or spins while it waits
    counts_as_hung: bool = True  # False: only to be told
    cores: float = 0.0  # used on average in the later part of the silence
    pace_seconds: float | None = None  # of the run's own steps before
    is_computing: bool = False  # it works with the CPU, not only with files
    is_early: bool = False  # to be looked at, not to be told
    is_again: bool = False  # told of before: only if it turns out to spin is there more to say


class StallWatch:
    """Watches one run; `over` holds how long a stall lasted, in the call that saw it end."""

    def __init__(self, threshold_seconds: float | None = None) -> None:
        self._given_seconds = threshold_seconds
        self.over: float | None = None
        self._progress: tuple[int, int] | None = None
        self._progress_t = self._observed_t = 0.0
        self._silence_mark: tuple[float, float] | None = None
        self._step_t: float | None = None
        self._busy_t = 0.0
        self._is_computing = False
        self._work_mark = (0.0, 0.0, 0.0, 0)
        self._has_told = self._has_fired = self._has_looked = False
        self._early_seconds = EARLY_SECONDS
        self._look_again_seconds = 0.0
        self._step_paces: deque[float] = deque(maxlen=PACES_KEPT)
        self._longest_pause = 0.0

    def observe(
        self,
        t: float,
        steps_total: int,
        output_bytes_total: int,
        cpu_seconds_total: float,
        moved_bytes_total: int = 0,
        queued_seconds_total: float = 0.0,
    ) -> Stalled | None:
        """Take the counters at time `t`; a stall that begins now comes back.

        `queued_seconds_total`: how long threads have waited for a core, which is work as well.
        """
        self.over = None
        work = (t, cpu_seconds_total, queued_seconds_total, moved_bytes_total)
        progress = (steps_total, output_bytes_total)
        if self._progress is None:
            self._progress = progress
            self._progress_t = self._busy_t = self._observed_t = t
            self._work_mark = work
            if steps_total > 0:
                self._step_t = t
            return None
        self._watch_work(*work)
        observed_t, self._observed_t = self._observed_t, t
        if progress != self._progress:
            self._take_progress(t, progress, observed_t)
            self._work_mark = work
            self._silence_mark = None
            self._look_again_seconds = 0.0
            return None
        if self._has_fired:
            return None
        silent = t - self._progress_t
        threshold = self._given_seconds or self.patience_seconds()
        if self._silence_mark is None and silent >= self.count_after_seconds():
            self._silence_mark = (t, cpu_seconds_total)
        pace = self.pace_seconds()
        cores = self._cores(t, cpu_seconds_total)
        idle = t - max(self._progress_t, self._busy_t)
        if idle >= threshold:
            self._has_fired = self._has_told = True
            return Stalled(silent, threshold, True, True, cores, pace)
        if not self._has_looked and idle >= self._early_seconds <= threshold / EARLY_PATIENCE:
            self._has_looked = True
            return Stalled(silent, self._early_seconds, True, False, cores, pace, is_early=True)
        longest = max(threshold * BUSY_HANG_PATIENCE, BUSY_HANG_SECONDS)
        if silent >= longest:
            self._has_fired = self._has_told = True
            return Stalled(silent, longest, False, True, cores, pace, self._is_computing)
        spoken_of = threshold * (BUSY_PATIENCE if self._given_seconds is None else 1.0)
        is_working_now = t - self._busy_t < 1.5 * self._window_seconds()
        if silent >= max(spoken_of, self._look_again_seconds) and is_working_now:
            is_again, self._has_told = self._has_told, True
            self._look_again_seconds = LOOK_AGAIN * silent
            return Stalled(
                silent, spoken_of, False, False, cores, pace, self._is_computing, is_again=is_again
            )
        return None

    def _cores(self, t: float, cpu_seconds: float) -> float:
        since, used_before = self._silence_mark or (t, cpu_seconds)
        return (cpu_seconds - used_before) / (t - since) if t > since else 0.0

    def silent_seconds(self, t: float) -> float:
        return t - self._progress_t

    def count_after_seconds(self) -> float:
        """How long a silence is before it matters whether the tree works."""
        patience = min(self._given_seconds or self.patience_seconds(), EARLY_SECONDS)
        return SILENCE_TO_COUNT_IN * patience

    def is_hung_after_all(self) -> None:
        """Somebody looked closer at a tree that seemed busy: it spins and waits."""
        self._has_fired = self._has_told = True

    def pace_seconds(self) -> float | None:
        """A step of this run, in the middle of its last ones."""
        paces = sorted(self._step_paces)
        return paces[len(paces) // 2] if paces else None

    def patience_seconds(self) -> float:
        """How long an idle tree may be silent, from the run's own pace."""
        if len(self._step_paces) < PACES_NEEDED:
            return max(FIRST_PHASE_SECONDS, LONGEST_PAUSES * self._longest_pause)
        paces = sorted(self._step_paces)
        slow = paces[int(0.95 * (len(paces) - 1))]
        return max(SHORTEST_SECONDS, SLOW_STEPS * slow, LONGEST_PAUSES * self._longest_pause)

    def _take_progress(self, t: float, progress: tuple[int, int], observed_t: float) -> None:
        """`observed_t`: the time of the look before this one."""
        silent = t - self._progress_t
        if self._has_fired or self._has_told or self._has_looked:
            self.over = silent
            if self._has_looked:
                self._early_seconds = max(self._early_seconds, EARLY_PATIENCE * silent)
            self._has_fired = self._has_told = self._has_looked = False
        self._longest_pause = max(self._longest_pause, silent)
        assert self._progress is not None
        steps = progress[0] - self._progress[0]
        if steps != 0:
            # A counter that falls belongs to another process that has taken over: no pace.
            # Several steps before the first look at a step were done since the look before it.
            since = observed_t if self._step_t is None and steps > 1 else self._step_t
            if since is not None and steps > 0:
                # Fast steps come many to a look. Each of them counts, up to what is needed.
                copies = min(max(steps // COUNTS_PER_STEP, 1), PACES_NEEDED)
                self._step_paces.extend([(t - since) / steps] * copies)
            self._step_t = t
        self._progress, self._progress_t = progress, t

    def _window_seconds(self) -> float:
        # Several looks within the threshold, or busy and idle could not be told apart in it.
        return min(CPU_WINDOW_SECONDS, self._given_seconds or EARLY_SECONDS, EARLY_SECONDS) / 4

    def _watch_work(
        self, t: float, cpu_seconds: float, queued_seconds: float, moved_bytes: int
    ) -> None:
        since, cpu_before, queued_before, moved_before = self._work_mark
        passed = t - since
        if passed < self._window_seconds():
            return
        computed = cpu_seconds - cpu_before
        wanted = computed + queued_seconds - queued_before
        is_moving = moved_bytes - moved_before >= BUSY_BYTES_PER_SECOND * passed
        if wanted >= BUSY_CORES * passed or is_moving:
            self._busy_t = t
            # Who moves bytes stands in line for a core as well, after each of them.
            self._is_computing = (computed if is_moving else wanted) >= BUSY_CORES * passed
        self._work_mark = (t, cpu_seconds, queued_seconds, moved_bytes)
