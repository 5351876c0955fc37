"""Our own processes beside the command: the canary in its group, the guardian outside of it.

In: what the guardian is to go on with. Out: both, or what is missing without them. Promises:
neither is taken for a process of the run, and none is left behind.
"""

from __future__ import annotations

from rerail.platform import proc_files
from rerail.recorder.run.canary import Canary
from rerail.recorder.run.guardian import Guardian, GuardianInputs
from rerail.recorder.run.loop import Loop
from rerail.recorder.run.stdio import Stdio
from rerail.recorder.run.successor import Successor
from rerail.recorder.run_record import RunRecord


class Companions:
    def __init__(self, record: RunRecord, loop: Loop) -> None:
        self._record = record
        self._loop = loop
        self.canary: Canary | None = None
        self.guardian: Guardian | None = None

    def start(
        self, stdio: Stdio, successor: Successor, unneeded: list[int], *, owns_process: bool
    ) -> list[int]:
        """Before the command starts; their pids."""
        if proc_files.has_proc():
            self.canary = self._record.attempt("canary", Canary.start)
        # Left open there, the kernel would go on sending news, and the canary would outlive us.
        if self.canary is not None:
            unneeded = [*unneeded, self.canary.fileno()]
        inputs = GuardianInputs(stdio, owns_process, unneeded, successor)
        self.guardian = self._record.attempt("guardian", lambda: Guardian.start(inputs))
        return [each.pid for each in (self.canary, self.guardian) if each is not None]

    def note_root(self, pid: int) -> None:
        guardian = self.guardian
        if guardian is not None:
            self._record.attempt("guardian", lambda: guardian.note_root(pid))

    def watch(self) -> None:
        """From now on a guardian that is killed is missed."""
        if self.guardian is not None:
            self._loop.watch(self.guardian.fileno(), self._guardian_spoke)

    def _guardian_spoke(self) -> None:
        assert self.guardian is not None
        self.guardian.listen()
        if self.guardian.was_killed():
            self._loop.forget(self.guardian.fileno())
            self._record.miss("guardian", "it was killed; the recorder goes on alone")

    @property
    def has_successor(self) -> bool:
        """Whether somebody would carry on output that we leave."""
        return self.guardian is not None and not self.guardian.is_lost

    def part(self, *, must_relay_on: bool) -> None:
        """At the end: the guardian goes too, unless daemons still hold the output."""
        if self.guardian is not None:
            part = self.guardian.hand_over if must_relay_on else self.guardian.dismiss
            self._record.attempt("guardian", part)
        if self.canary is not None:
            self._record.attempt("canary", self.canary.dismiss)
