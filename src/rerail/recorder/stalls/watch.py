"""A run that makes no progress: noticed, written down with everybody's stacks, and acted upon.

In: steps from the agents' black boxes, bytes of output and CPU time. Out: `stall` and `stall-over`
events, stalls.jsonl, a line for the user; with `kill` the tree is ended, with a command that is
run. Promises: stacks are taken in a child with a deadline; only processes of the tree are killed,
each by its pidfd.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from rerail.platform.forked_task import ForkedTask
from rerail.recorder.tree.processes import Tree
from rerail.records import Stall
from rerail.store import RunWriter
from rerail.wording import duration_in_words

if TYPE_CHECKING:
    from rerail.recorder.stalls.judgement import Stalled

STACKS_SECONDS = 30.0
TERM_GRACE_SECONDS = 5.0


class StallOptions(Protocol):
    @property
    def stall_seconds(self) -> float | None: ...
    @property
    def on_stall(self) -> str: ...
    @property
    def is_quiet(self) -> bool: ...


class Stalling:
    def __init__(self, writer: RunWriter, tree: Tree, options: StallOptions) -> None:
        from rerail.recorder.stalls.judgement import StallWatch
        from rerail.recorder.vitals.progress import ProgressCounters

        self._writer = writer
        self._tree = tree
        self._options = options
        self._watch = StallWatch(options.stall_seconds)
        self._counters = ProgressCounters(writer.agent_dir)
        self._stacks_task: ForkedTask | None = None
        self._reaction: Any = None
        self._kill_at: float | None = None
        self.has_killed = False

    def look(self, output_bytes: int, cpu_seconds: float) -> None:
        """Once a second."""
        if self._stacks_task is not None and self._stacks_task.is_over():
            if self._stacks_task.problem:
                self._writer.event("missing", what="stacks", why=self._stacks_task.problem)
            self._stacks_task = None
            self._act()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            self._signal_all(signal.SIGKILL)
        stalled = self._observe(output_bytes, cpu_seconds)
        if stalled is not None:
            self._begin(stalled)

    def _observe(self, output_bytes: int, cpu_seconds: float) -> Stalled | None:
        steps = self._counters.total()
        stalled = self._watch.observe(self._writer.now(), steps, output_bytes, cpu_seconds)
        if self._watch.over is not None:
            self._writer.event("stall-over", silent_seconds=round(self._watch.over, 3))
        return stalled

    def _begin(self, stalled: Stalled) -> None:
        t = round(self._writer.now(), 3)
        silent, threshold = round(stalled.silent_seconds, 3), stalled.threshold_seconds
        action = self._options.on_stall
        self._writer.event(
            "stall", silent_seconds=silent, threshold_seconds=threshold, action=action
        )
        self._say(
            f"no step and no output for {duration_in_words(silent)}; taking everybody's stacks"
        )
        processes = self._tree.processes

        def take_stacks() -> None:
            from rerail.recorder.stalls import stacks

            found = stacks.take(processes, self._writer.agent_dir)
            self._writer.append("stalls.jsonl", Stall(t, silent, threshold, action, found))

        self._stacks_task = ForkedTask.start("stacks", take_stacks, STACKS_SECONDS)
        self._tree.own_helpers.add(self._stacks_task.pid)

    def _act(self) -> None:
        """The stacks are on file: only now may anything be changed."""
        action = self._options.on_stall
        if action == "report":
            self._say(f"recorded; see `rerail show {self._writer.id}`")
        elif action == "kill":
            self._say("ending the run, as --on-stall kill says")
            self.has_killed = True
            self._signal_all(signal.SIGTERM)
            self._kill_at = time.monotonic() + TERM_GRACE_SECONDS
        else:
            self._run(action)

    def _run(self, action: str) -> None:
        import subprocess

        environ = {
            **os.environ,
            "RERAIL_RUN": str(self._writer.path),
            "RERAIL_ROOT_PID": str(self._tree.root.pid if self._tree.root else ""),
        }
        try:
            self._reaction = subprocess.Popen(
                ["/bin/sh", "-c", action],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()) and None,
            )
            self._tree.own_helpers.add(self._reaction.pid)
        except OSError as error:
            self._writer.event("missing", what="--on-stall command", why=str(error))

    def _signal_all(self, number: int) -> None:
        for process in list(self._tree.living.values()):
            try:
                if process.pidfd >= 0:
                    signal.pidfd_send_signal(process.pidfd, number)
                else:
                    os.kill(process.pid, number)
            except (OSError, AttributeError):
                continue

    def _say(self, text: str) -> None:
        if self._options.is_quiet:
            return
        try:
            ending = "\r\n" if sys.stderr.isatty() else "\n"
            os.write(2, f"rerail: {text}{ending}".encode())
        except OSError:
            pass

    def close(self, output_bytes: int, cpu_seconds: float) -> None:
        """The run is over; its last words may have ended a stall."""
        self._observe(output_bytes, cpu_seconds)
        if self._stacks_task is not None:
            self._stacks_task.cancel()
            self._stacks_task = None
        if self._reaction is not None:
            self._reaction.poll()
        self._counters.close()
