"""The record of a run in the hands of the guardian, once the recorder was killed or is done.

In: the run's record and counters as they were when the guardian was forked. Out: the output of the
rest of the run, what is missing from then on, and the ending. Promises: it writes through a writer
of its own, which goes on where the files really are and not where the forked copy believes them.
"""

from __future__ import annotations

import os

from rerail.recorder.kernel.counters import KernelCounters
from rerail.recorder.run import conclusion
from rerail.recorder.run.box_copies import BoxCopies
from rerail.recorder.run.channel import Keep
from rerail.recorder.run.recording import Notifies
from rerail.recorder.run_record import RunRecord
from rerail.recorder.surroundings_task import StartedWith, SurroundingsTask
from rerail.recorder.tree.endings import Ending
from rerail.store import RunWriter, liveness


class Successor:
    def __init__(
        self,
        record: RunRecord,
        kernel: KernelCounters,
        started_with: StartedWith,
        notifier: Notifies | None,
    ) -> None:
        # The recorder's; in the guardian only of use where the folder cannot be adopted.
        self._record = record
        self._kernel = kernel
        self._started_with = started_with
        self._notifier = notifier
        self._surroundings = SurroundingsTask(record, started_with, set())
        self._copies = BoxCopies(record, set())

    def adopt(self, *, has_ended: bool) -> Keep:
        """Go on with the record; where output is to be kept from now on."""
        self._record.writer.let_go()
        writer = RunWriter.adopt(self._record.writer.path)
        if not has_ended:
            own_pid = os.getpid()
            writer.update_info(
                recorder_pid=own_pid, recorder_start_ticks=liveness.start_ticks(own_pid)
            )
            writer.event(
                "missing",
                what="recorder",
                why="it was killed; vitals and the ends of processes are missing from here on",
            )
        self._record = RunRecord(writer, self._record.told)
        self._kernel = KernelCounters(self._record, self._kernel.watch)
        self._surroundings = SurroundingsTask(self._record, self._started_with, set())
        self._copies = BoxCopies(self._record, set())
        return self._record.keep_output

    def look(self) -> None:
        """Once a second."""
        self._copies.look()

    def close_run(self, root_pid: int, ending: Ending) -> None:
        """The command has ended: nobody else is there to say so."""
        writer = self._record.writer
        self._copies.finish()
        writer.event(
            "process-ended",
            pid=root_pid,
            start=0,
            **ending.in_event(),
        )
        death = conclusion.write_death(self._record, ending, [], self._kernel)
        self._surroundings.finish(is_wanted=death.outcome.kind != "ok")
        writer.finish(death.outcome, death.elapsed_seconds)
        if self._notifier is not None:
            self._notifier.run_ended_unseen(
                writer.path, death.outcome.summary, is_death=death.outcome.kind != "ok"
            )
