"""A run that makes no progress: noticed, written down with everybody's stacks, and acted upon.

In: steps from the agents' black boxes, bytes of output, CPU time and bytes moved. Out: `stall` and
`stall-over` events (`busy` and `quiet` for what does not count as hung), stalls.jsonl, some lines
for the user; with `kill` a hung tree is ended, with a command that is run. Promises: the look
is taken in a child with a deadline; a run that goes on meanwhile is left alone; only processes of
the tree are killed, each by its pidfd.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, NamedTuple, Protocol

from rerail.platform.forked_task import ForkedTask
from rerail.recorder.run.recording import Notifies
from rerail.recorder.saying import say
from rerail.recorder.stalls.activity import Work, count_work
from rerail.recorder.stalls.judgement import Stalled, StallWatch
from rerail.recorder.tree.processes import Tree
from rerail.store import RunWriter
from rerail.wording import duration_in_words

STACKS_SECONDS = 30.0
TERM_GRACE_SECONDS = 5.0
LAST_WORDS_SECONDS = 10.0  # between an interrupt and the end


class Hang(NamedTuple):
    seconds: float
    hung_in: str  # for the end of a sentence: "in hang.py:7 save(), waiting for a lock"


class StallOptions(Protocol):
    @property
    def stall_seconds(self) -> float | None: ...
    @property
    def on_stall(self) -> str: ...
    @property
    def is_quiet(self) -> bool: ...
    @property
    def notifier(self) -> Notifies | None: ...


class Stalling:
    def __init__(self, writer: RunWriter, tree: Tree, options: StallOptions) -> None:
        from rerail.recorder.vitals.progress import ProgressCounters

        self._writer = writer
        self._tree = tree
        self._options = options
        self._watch = StallWatch(options.stall_seconds)
        self._counters = ProgressCounters(writer.agent_dir)
        self._printed_steps = 0
        self._look: tuple[ForkedTask, int, Stalled] | None = None  # with the pipe of its finding
        self._reaction: Any = None
        self._kill_at: float | None = None
        self._event: str | None = None  # stall or busy, while it lasts
        self._began_t = 0.0
        self._notified_t: float | None = None  # when the stall began that was last told of
        self._hung_in = ""
        self._over: Hang | None = None
        self._over_t = 0.0
        self._work = Work()
        self._work_mark: tuple[Work, float] | None = None
        self._waiting: Stalled | None = None  # noticed while an earlier look was under way
        self.has_killed = False

    @property
    def is_stalled(self) -> bool:
        return self._event == "stall"

    def last_hang(self) -> Hang | None:
        """The stall that the run was in when it ended.

        Its last words may have ended the silence: a program that is interrupted says where.
        """
        now = self._writer.now()
        if self._event in ("stall", "quiet"):
            return Hang(now - self._began_t, self._hung_in)
        is_recent = self._over is not None and now - self._over_t <= LAST_WORDS_SECONDS
        return self._over if is_recent else None

    def look(self, output_bytes: int, tree_cpu_seconds: float, printed_steps: int = 0) -> None:
        """Look for a stall; called once a second. `printed_steps`: read in the output so far."""
        self._printed_steps = printed_steps
        if self._look is not None and self._look[0].is_over():
            self._end_look()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            self._signal_all(signal.SIGKILL)
        stalled = self._observe(output_bytes, tree_cpu_seconds) or self._waiting
        self._waiting = stalled if self._look is not None else None
        if stalled is not None and self._look is None:
            self._begin_look(stalled)

    def _observe(self, output_bytes: int, tree_cpu_seconds: float) -> Stalled | None:
        now = self._writer.now()
        # Programs without an agent's count tell their pace by the steps that they print.
        steps = self._counters.total() or self._printed_steps
        work = self._work_so_far(now, tree_cpu_seconds)
        stalled = self._watch.observe(
            now, steps, output_bytes, work.cpu_seconds, work.moved_bytes, work.queued_seconds
        )
        if self._watch.over is not None and not self.has_killed:
            if self._event is not None:
                silent = round(self._watch.over, 3)
                self._writer.event(f"{self._event}-over", silent_seconds=silent)
            if self._event in ("stall", "quiet"):
                self._over, self._over_t = Hang(self._watch.over, self._hung_in), now
            self._event = self._waiting = None
        return stalled

    def _work_so_far(self, now: float, tree_cpu_seconds: float) -> Work:
        """CPU time and bytes, counted only in a silence: a healthy run does not pay for it."""
        if self._watch.silent_seconds(now) < self._watch.count_after_seconds():
            self._work_mark = None
            return self._work
        mark = (count_work(self._tree.living), tree_cpu_seconds)
        if self._work_mark is not None:
            self._work = self._work.plus(self._work_mark, mark)
        self._work_mark = mark
        return self._work

    def _begin_look(self, stalled: Stalled) -> None:
        if self._event is None or not stalled.is_again:
            self._began_t = self._writer.now() - stalled.silent_seconds
        if stalled.counts_as_hung:
            self._tell("stall", stalled)
        t, action = round(self._writer.now(), 3), self._options.on_stall
        records = [process.record() for process in self._tree.living.values()]

        def take(write_end: int) -> None:
            from rerail.recorder.stalls.look import look_closer

            look_closer(self._writer, records, stalled, t, action).send(write_end)

        task, read_end = ForkedTask.start_with_answer("stacks", take, STACKS_SECONDS)
        self._look = (task, read_end, stalled)
        self._tree.own_helpers.add(task.pid)

    def _tell(self, kind: str, stalled: Stalled) -> None:
        self._event = kind
        self._writer.event(
            kind,
            silent_seconds=round(stalled.silent_seconds, 3),
            threshold_seconds=stalled.threshold_seconds,
            action=self._options.on_stall,
        )

    def _end_look(self) -> None:
        """The stacks are on file: only now may anything be changed."""
        from rerail.recorder.stalls.look import Finding

        assert self._look is not None
        task, read_end, stalled = self._look
        self._look = None
        finding = Finding.receive(read_end)
        os.close(read_end)
        if task.problem:
            self._writer.event("missing", what="stacks", why=task.problem)
        if finding is None:
            silent = duration_in_words(stalled.silent_seconds)
            finding = Finding(stalled.counts_as_hung, [f"no step and no output for {silent}"])
        is_over = self._event is None and stalled.counts_as_hung
        if is_over or self._watch.silent_seconds(self._writer.now()) < stalled.silent_seconds:
            return  # it has gone on while it was looked at
        if stalled.is_again and not finding.is_hung:
            return
        self._hung_in = finding.hung_in
        if stalled.is_early:
            self._tell("quiet", stalled)
            return
        if not stalled.counts_as_hung:
            if finding.is_hung:
                self._watch.is_hung_after_all()
            self._tell("stall" if finding.is_hung else "busy", stalled)
        for line in finding.lines:
            self._say(line)
        if finding.is_hung:
            self._notify(stalled.silent_seconds)
        self._act(is_hung=finding.is_hung)

    def _act(self, *, is_hung: bool) -> None:
        action = self._options.on_stall
        if action == "report" or not is_hung:
            self._say(f"recorded; see `rerail show {self._writer.id}`")
        elif action == "kill":
            self._say("ending the run, as --on-stall kill says")
            self.has_killed = True
            self._signal_all(signal.SIGTERM)
            self._kill_at = time.monotonic() + TERM_GRACE_SECONDS
        else:
            self._run(action)

    def _notify(self, silent_seconds: float) -> None:
        """Once for each stall, however often it is looked at."""
        notifier = self._options.notifier
        if notifier is None or self._notified_t == self._began_t:
            return
        self._notified_t = self._began_t
        pid = notifier.stalled(
            self._writer.path,
            silent_seconds,
            self._hung_in,
            ends_it=self._options.on_stall == "kill",
        )
        if pid is not None:
            self._tree.own_helpers.add(pid)

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
            process.send(number)

    def _say(self, text: str) -> None:
        say(text, self._options.is_quiet)

    def close(self, output_bytes: int, tree_cpu_seconds: float) -> None:
        """The run is over; its last words may have ended a stall."""
        self._observe(output_bytes, tree_cpu_seconds)
        if self._look is not None:
            task, read_end, _ = self._look
            task.cancel()
            os.close(read_end)
            self._look = None
        if self._reaction is not None:
            self._reaction.poll()
        self._counters.close()
