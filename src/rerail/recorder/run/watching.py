"""The time between the start of the command and its end.

In: the parts of the run and a command that runs. Out: how the command ended. Promises: one loop in
one thread; whatever fails in it is missed in the record, and the loop goes on until the command has
ended.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from rerail.recorder.run.box_copies import LOOK_SECONDS
from rerail.recorder.run.carrying_on import is_there
from rerail.recorder.run.parts import Parts
from rerail.recorder.run.recording import RunOptions
from rerail.recorder.sampling import SAMPLE_SECONDS
from rerail.recorder.stalls.watch import Hang, Stalling
from rerail.recorder.tree.endings import Ending, from_status
from rerail.recorder.tree.process import Process

if TYPE_CHECKING:
    from rerail.recorder.metrics_file import MetricsFile
    from rerail.recorder.stragglers.watch import RankWatch
    from rerail.recorder.vitals.step_history import StepHistory

GATE_SECONDS = 0.5
RANKS_SECONDS = 0.25
METRICS_SECONDS = 15.0  # as often as Prometheus usually looks


class Watching:
    def __init__(self, parts: Parts, options: RunOptions) -> None:
        self._parts = parts
        self._options = options
        self._stalling: Stalling | None = None
        self._metrics: MetricsFile | None = None
        self._ranks: RankWatch | None = None
        self._steps: StepHistory | None = None

    def begin(self) -> None:
        parts, loop = self._parts, self._parts.loop
        parts.streams.start()
        loop.watch(parts.inbox.descriptor, self._read_signals)
        parts.companions.watch()
        loop.every(SAMPLE_SECONDS, "tree", self._look, first=0.02)
        loop.every(SAMPLE_SECONDS, "sampling", parts.sampling.tick, first=0.02)  # one wake-up
        pace = min(1.0, (self._options.stall_seconds or 4.0) / 4)
        if parts.gates is not None:
            loop.every(GATE_SECONDS, "gates", parts.gates.look, first=GATE_SECONDS)
        loop.every(pace, "stall watch", self._look_for_stall, first=pace)
        if self._options.use_agent:
            copies = parts.box_copies
            loop.every(LOOK_SECONDS, "copies of black boxes", copies.look, first=LOOK_SECONDS)
            loop.every(LOOK_SECONDS, "step history", self._look_at_steps, first=LOOK_SECONDS)
            loop.every(RANKS_SECONDS, "ranks", self._look_at_ranks, first=1.0)
        if self._options.metrics_file is not None:
            loop.every(METRICS_SECONDS, "metrics file", self._write_metrics, first=1.0)

    def wait_for_end(self) -> Ending:
        parts, root = self._parts, self._root()
        while root.ending is None:
            try:
                parts.loop.run(until=time.monotonic() + 3600.0)
            except Exception as error:
                parts.record.failed("recorder", error)
                time.sleep(0.01)  # whatever it is, the command is not to pay with our CPU time
            if root.ending is None and not is_there(root.pid):
                parts.tree.root_ended(Ending())
        return root.ending

    def _look(self) -> None:
        """Ten times a second."""
        parts, attempt = self._parts, self._parts.record.attempt
        if parts.news is not None:
            attempt("the tree", parts.news.tick)
        attempt("the tree", parts.tree.tick)
        parts.kernel.catch_up()
        parts.surroundings.look()
        parts.streams.look()
        attempt("progress from the output", parts.progress.look)
        # Whatever became of the descriptor's watch: nothing waits for ever.
        attempt("signals", self._read_signals)
        self._check_root()

    def _read_signals(self) -> None:
        for received in self._parts.inbox.read():
            if received.number == signal.SIGCHLD:
                self._check_root()
            else:
                self._parts.forwarding.handle(received)

    def _check_root(self) -> None:
        """Has the command ended, or has it stopped?"""
        root = self._root()
        if root.ending is None:
            self._parts.tree.look_at_root_once_more()
            try:
                pid, status = os.waitpid(root.pid, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._parts.forwarding.root_stopped(os.WSTOPSIG(status))
                return
            self._parts.tree.root_ended(from_status(status, "wait"))
        self._parts.loop.stop()

    def _root(self) -> Process:
        root = self._parts.tree.root
        assert root is not None
        return root

    # -- stalls -------------------------------------------------------------------------------

    def _look_for_stall(self) -> None:
        parts = self._parts
        if self._stalling is None:
            self._stalling = Stalling(parts.writer, parts.tree, self._options)
        said = parts.progress.latest
        self._stalling.look(
            parts.streams.relay.bytes_total,
            parts.sampling.cpu_seconds,
            printed_steps=said.steps if said else 0,
        )

    def _look_at_steps(self) -> None:
        if self._steps is None:
            from rerail.recorder.vitals.step_history import StepHistory

            self._steps = StepHistory(self._parts.writer)
        self._steps.look()

    def _look_at_ranks(self) -> None:
        if self._ranks is None:
            from rerail.recorder.stragglers.watch import RankWatch

            parts = self._parts
            self._ranks = RankWatch(parts.writer, parts.tree, self._options)
        self._ranks.look()

    def _write_metrics(self) -> None:
        parts, path = self._parts, self._options.metrics_file
        assert path is not None
        if self._metrics is None:
            from rerail.recorder.metrics_file import MetricsFile

            self._metrics = MetricsFile(path, parts.writer, parts.tree.own_helpers)
        is_stalled = self._stalling is not None and self._stalling.is_stalled
        self._metrics.tick(parts.sampling.latest, is_stalled=is_stalled)

    @property
    def has_killed(self) -> bool:
        """Whether we ended the command ourselves, because it made no progress."""
        return self._stalling is not None and self._stalling.has_killed

    @property
    def last_hang(self) -> Hang | None:
        """The stall that the command did not come out of."""
        return self._stalling.last_hang() if self._stalling is not None else None

    def close(self) -> None:
        parts, stalling = self._parts, self._stalling
        attempt = parts.record.attempt
        if stalling is not None:
            printed, used = parts.streams.relay.bytes_total, parts.sampling.cpu_seconds
            attempt("stall watch", lambda: stalling.close(printed, used))
        if self._metrics is not None:
            attempt("metrics file", self._metrics.close)
        if self._ranks is not None:
            attempt("ranks", self._ranks.close)
