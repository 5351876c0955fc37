"""The parts that record one run, made before the command starts.

In: the command, what the user asked for and the run's writer. Out: every part, each with those that
it needs in hand. Promises: nothing is started here, and no process is touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rerail.platform import libc
from rerail.recorder.kernel.counters import KernelCounters
from rerail.recorder.run.agent_variables import agent_variables
from rerail.recorder.run.box_copies import BoxCopies
from rerail.recorder.run.companions import Companions
from rerail.recorder.run.forwarding import Forwarding
from rerail.recorder.run.loop import Loop
from rerail.recorder.run.output_progress import OutputProgress
from rerail.recorder.run.recording import RunOptions
from rerail.recorder.run.signals import SignalInbox
from rerail.recorder.run.streams import Streams
from rerail.recorder.run.successor import Successor
from rerail.recorder.run.terminal import StandardStreams
from rerail.recorder.run_record import RunRecord
from rerail.recorder.sampling import Sampling
from rerail.recorder.surroundings_task import StartedWith, SurroundingsTask
from rerail.recorder.tree.process import Process
from rerail.recorder.tree.process_news import ProcessNews
from rerail.recorder.tree.processes import Tree
from rerail.store import RunWriter

if TYPE_CHECKING:
    from rerail.recorder.run.gate_watch import GateWatch


class Parts:
    def __init__(
        self,
        command: list[str],
        cwd: Path,
        options: RunOptions,
        standard: StandardStreams,
        inbox: SignalInbox,
        writer: RunWriter,
    ) -> None:
        self.writer = writer
        self.inbox = inbox
        self.record = record = RunRecord(writer)
        self.loop = loop = Loop(record.failed)
        self.tree = tree = Tree(writer, loop, writer.t0_ns)
        self.kernel = KernelCounters.begin(record)
        self.sampling = Sampling(record, tree, self.kernel, cwd)
        tree.on_start = self._process_started
        tree.on_end = self.kernel.process_ended
        tree.on_root_over = self.kernel.root_is_over
        self.companions = Companions(record, loop)
        self.progress = OutputProgress(record)
        self.box_copies = BoxCopies(record, tree.own_helpers)
        self.streams = Streams(
            standard,
            loop,
            record,
            self.companions,
            self.progress,
            owns_process=options.owns_process,
        )
        self.forwarding = Forwarding(tree, writer, self.streams, self.companions)
        self.gates = self._watch_gates(options) if options.gates else None
        self.agent_variables = agent_variables(command, options, record)
        started_with = StartedWith(command, cwd, options.environ, self.agent_variables)
        self.surroundings = SurroundingsTask(record, started_with, tree.own_helpers)
        self.successor = Successor(record, self.kernel, started_with, options.notifier)
        self.news: ProcessNews | None = None  # from the start on

    def _watch_gates(self, options: RunOptions) -> GateWatch | None:
        from rerail.recorder.run.gate_watch import GateWatch

        def make() -> GateWatch:
            return GateWatch(
                options.gates,
                options.on_gate,
                self.writer,
                self.forwarding.interrupt,
                is_quiet=options.is_quiet,
            )

        gates = self.record.attempt("gates", make)
        self.record.on_output = gates.note_output if gates is not None else None
        return gates

    def _process_started(self, process: Process) -> None:
        self.kernel.process_started(process)
        self.sampling.process_started(process)

    def let_go(self, *, must_relay_on: bool = False) -> None:
        """Leave this process as it was found."""
        attempt = self.record.attempt
        attempt("relay", self.streams.relay.stop)
        self.companions.part(must_relay_on=must_relay_on)
        self.streams.close()
        attempt("orphans", libc.stop_being_subreaper)
        attempt("loop", self.loop.close)
        attempt("signals", self.inbox.close)
