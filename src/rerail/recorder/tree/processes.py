"""The command's processes: every descendant from its first sign of life to its end.

In: births, execs and deaths as `process_events` or a scan of /proc tell them, and pidfds that say
when a process is gone. Out: `process-started`, `process-changed` and `process-ended` events in the
record. Promises: a reused pid is never mistaken for the old process (each has its start time and a
pidfd); only children of this process are reaped; an ending that nobody could tell says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rerail.platform import proc_files
from rerail.platform.command_line import is_python
from rerail.platform.procfs import StatFields
from rerail.recorder.tree import endings
from rerail.recorder.tree.endings import Ending
from rerail.recorder.tree.process import Process
from rerail.recorder.tree.process_events import Changed, Exit, Fork, ProcessEvent
from rerail.recorder.tree.ray_titles import is_ray_title, settled
from rerail.recorder.tree.roles import RANK_VARIABLES, program_of, rank_place, role_of
from rerail.records import ProcessRecord
from rerail.store import AgentDir

# A shell loop can start thousands: past this many, short and clean lives are counted, not listed.
MOST_LISTED = 4000
SETTLE_SECONDS = 0.05  # fork and exec come together: the start is written down once both are over
FORGET_SECONDS = 1.0
MOST_REMEMBERED = 1024
FRESH_SECONDS = 5.0  # of a process: the news of its exec may still be on the way


class EventWriter(Protocol):
    @property
    def agent_dir(self) -> AgentDir: ...

    def event(self, kind: str, *, t_seconds: float | None = None, **data: Any) -> None: ...
    def together(self) -> AbstractContextManager[None]: ...
    def now(self) -> float: ...


class DescriptorWatch(Protocol):
    def watch(self, descriptor: int, callback: Callable[[], None]) -> None: ...
    def forget(self, descriptor: int) -> None: ...


class Tree:
    """All processes of one run."""

    def __init__(self, writer: EventWriter, watch: DescriptorWatch, t0_ns: int) -> None:
        self._writer = writer
        self._watch = watch
        self._t0_ns = t0_ns
        self._own_pid = os.getpid()
        self.root: Process | None = None
        self._root_command: list[str] = []
        self.living: dict[int, Process] = {}
        self.ended: list[Process] = []
        self._unlisted: list[Process] = []
        self._gone: dict[int, Process] = {}  # the latest to end, or to be asked for
        self._undecided: dict[int, tuple[Process, float]] = {}  # gone, their status still to come
        self._strangers: dict[int, list[Fork]] = {}  # births of a parent that is not known (yet)
        self._strangers_since = 0.0
        self._batch = 0  # of news, counted
        self._exits: dict[int, Exit] = {}  # of this batch, of those who ran no other program
        self._listed_count = 0
        self.unlisted_count = 0
        self.own_helpers: set[int] = (
            set()
        )  # guardian and the like: children of ours, not of the run
        self.on_start: Callable[[Process], None] = lambda process: None
        self.on_end: Callable[[Process], None] = lambda process: None
        self.on_root_over: Callable[[Process], None] = lambda process: None  # before it is reaped

    def add_root(self, pid: int, command: Sequence[str], t: float) -> Process:
        """The command itself; in the middle of its exec /proc shows no command line."""
        self._root_command = list(command)
        self.root = self._add(pid, self._own_pid, t, is_root=True)
        return self.root

    @property
    def processes(self) -> list[tuple[int, int]]:
        """Those alive, as the samplers want them."""
        return [(p.pid, p.start_ticks) for p in self.living.values()]

    def records(self) -> list[ProcessRecord]:
        """Everybody so far, the root first."""
        everybody = [*self.ended, *self.living.values()]
        everybody.sort(key=lambda process: (process is not self.root, process.started_t))
        return [process.record() for process in everybody]

    # -- news ---------------------------------------------------------------------------------

    def handle(self, events: Sequence[ProcessEvent]) -> None:
        if not events:
            return
        self._batch += 1
        changed = {event.pid for event in events if isinstance(event, Changed)}
        exits = (event for event in events if isinstance(event, Exit))
        self._exits = {event.pid: event for event in exits if event.pid not in changed}
        with self._writer.together():
            for event in events:
                if isinstance(event, Fork):
                    self._on_fork(event)
                elif isinstance(event, Changed):
                    if (process := self.living.get(event.pid)) is not None:
                        self._look_again(process)
                elif event.pid in self.living:
                    process = self.living[event.pid]
                    process.told = endings.from_status(event.status, "netlink")
                    if process.pidfd < 0:
                        self._settle(process)
        self._exits = {}

    def look_at(self, pids: Iterable[int]) -> None:
        """Take in those of these pids that descend from the root (or were left to us)."""
        for pid in pids:
            if pid in self.living or pid == self._own_pid or pid in self.own_helpers:
                continue
            stat = proc_files.read_stat(pid)
            if stat is None or self._has_ended(pid, stat.start_ticks):
                continue
            if self._is_ours(stat.parent_pid):
                self._add(pid, stat.parent_pid, self._writer.now())

    def look_for_changes(self) -> None:
        """Without exec events: has anybody become another program?"""
        for process in list(self.living.values()):
            self._look_again(process)

    def _is_ours(self, parent: int) -> bool:
        return parent in self.living or parent == self._own_pid

    def _has_ended(self, pid: int, start_ticks: int) -> bool:
        """Whether this very process was seen to end: a scan may meet it as a zombie, or before
        the news of its birth. Start times that were worked out can be off by a tick."""
        gone = self._gone.get(pid)
        return gone is not None and abs(gone.start_ticks - start_ticks) <= 1

    def _on_fork(self, event: Fork) -> None:
        if event.pid in self.living or event.pid in self.own_helpers:
            return
        t = (event.monotonic_ns - self._t0_ns) / 1e9
        if self._has_ended(event.pid, proc_files.start_ticks_at(event.monotonic_ns)):
            return
        parent = self._parent_called(event.parent)
        if parent is not None and (parent.ended_t is None or t <= parent.ended_t):
            if event.pid in self._exits:
                self._add_ended(parent, event, self._exits[event.pid], t)
            else:
                self._add(event.pid, event.parent, t, born_ns=event.monotonic_ns)
        elif event.parent != self._own_pid:
            # Two CPUs may tell a birth and the birth of its parent in the wrong order.
            now = time.monotonic()
            if now - self._strangers_since > FORGET_SECONDS:
                self._strangers.clear()
                self._strangers_since = now
            self._strangers.setdefault(event.parent, []).append(event)

    def _add(
        self, pid: int, parent: int, t: float, *, is_root: bool = False, born_ns: int = 0
    ) -> Process:
        stat = proc_files.read_stat(pid)
        start_ticks = stat.start_ticks if stat else proc_files.start_ticks_at(born_ns)
        process = Process(pid, start_ticks, parent, max(t, 0.0))
        try:
            process.pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            pass
        self.living[pid] = process
        self._describe(process, stat, is_root=is_root)
        self._unlisted.append(process)
        if process.pidfd >= 0:
            self._watch.watch(process.pidfd, lambda: self._settle(process))
        elif stat is None:
            self._undecided[pid] = (process, time.monotonic())
        self.on_start(process)
        for birth in self._strangers.pop(pid, ()):
            self._on_fork(birth)
        return process

    def _add_ended(self, parent: Process, birth: Fork, end: Exit, t: float) -> None:
        """A copy of its parent that has ended already: there is nothing left to look at."""
        process = Process(birth.pid, proc_files.start_ticks_at(birth.monotonic_ns), parent.pid, t)
        self._refresh(parent, process)
        process.command, process.name, process.place = parent.command, parent.name, parent.place
        process.was_over_when_heard_of = True
        self._give_role(process, parent)
        told = endings.from_status(end.status, "netlink")
        # An orphan is ours to reap; else its parent does, and nobody need ask.
        self._finish(process, (None if parent.is_alive else endings.wait_for(birth.pid)) or told)
        for later in self._strangers.pop(birth.pid, ()):
            self._on_fork(later)

    def _describe(
        self, process: Process, stat: StatFields | None, *, is_root: bool = False
    ) -> None:
        parent = self._parent_of(process)
        inherited = parent.command if parent else self._root_command
        command = proc_files.read_command(process.pid) or inherited
        process.command = settled(command, process.command)
        process.name = stat.name if stat else (parent.name if parent else "")
        if is_ray_title(process.command):
            process.name = process.command[0]
        told = proc_files.read_variables(process.pid, RANK_VARIABLES)
        process.place = rank_place(told)
        if process.rank is None and parent is not None:
            process.place = parent.place
        self._give_role(process, parent, is_root=is_root)

    def _describe_from_box(self, process: Process) -> None:
        """Gone before anybody looked at it after its exec: what its agent wrote is still there."""
        from rerail.store import read_box

        box = read_box(self._writer.agent_dir / f"{process.key}.box", self._t0_ns)
        argv = box.argv if box is not None else []
        # Before 3.10 Python itself knows only the part from the script on.
        if not _is_python(argv) or is_ray_title(process.command):
            return
        if process.is_listed and _is_python(process.command):
            return
        if argv != process.command:
            process.command, process.name = argv, program_of(argv)[:15]
        self._give_role(process, self._parent_of(process))

    def _parent_of(self, process: Process) -> Process | None:
        """As it is now: a parent last seen before its own exec would pass a wrong role on."""
        parent = self._parent_called(process.parent_pid)
        if parent is not None:
            self._refresh(parent, process)
        return parent

    def _refresh(self, parent: Process, child: Process) -> None:
        if parent.is_alive and parent.looked_in != self._batch:
            lead = child.started_t - parent.started_t
            if 0.0 < lead < FRESH_SECONDS:
                self._look_again(parent)

    def _give_role(
        self, process: Process, parent: Process | None, *, is_root: bool = False
    ) -> None:
        process.role = role_of(
            process.command,
            process.name,
            is_root=is_root or process is self.root,
            parent_role=parent.role if parent else None,
            parent_command=parent.command if parent else (),
            rank=process.rank,
            parent_rank=parent.rank if parent else None,
        )

    def _look_again(self, process: Process) -> None:
        process.looked_in = self._batch
        stat = proc_files.read_stat(process.pid)
        if stat is None or stat.start_ticks != process.start_ticks or stat.state in "ZX":
            self._told_of_change(process, lambda: self._describe_from_box(process))
            return
        command = settled(proc_files.read_command(process.pid), process.command)
        is_same = command == process.command and (
            stat.name == process.name or is_ray_title(command)
        )
        if process.is_listed and (not command or is_same):
            return
        self._told_of_change(process, lambda: self._describe(process, stat))

    def _told_of_change(self, process: Process, describe: Callable[[], None]) -> None:
        """Describe it anew; if its start is on record already, say what is different."""
        before = process.in_event()
        describe()
        if not process.is_listed:
            return
        after = process.in_event()
        changed = {name: after[name] for name in after if after[name] != before.get(name)}
        if changed:
            self._writer.event(
                "process-changed", pid=process.pid, start=process.start_ticks, **changed
            )

    # -- endings ------------------------------------------------------------------------------

    def tick(self) -> None:
        """Ten times a second: write starts down that have settled, decide what was undecided."""
        now = self._writer.now()
        waiting = []
        for process in self._unlisted:
            if process.is_alive and now - process.started_t < SETTLE_SECONDS:
                waiting.append(process)
            elif process.is_alive:
                self._list(process)
        self._unlisted = waiting
        for pid, (process, since) in list(self._undecided.items()):
            is_last_chance = time.monotonic() - since > FORGET_SECONDS
            ending = self._ask(process)
            if ending is None and is_last_chance:
                ending = process.told or Ending()
            if ending is not None:
                del self._undecided[pid]
                self._finish(process, ending)

    def _ask(self, process: Process) -> Ending | None:
        """Those who know for certain, best first. The root is reaped by `record` alone."""
        ending = endings.wait_for(process.pid)
        if ending is None:
            ending = endings.from_pidfd(process.pidfd)
        if ending is None and process.told is not None:
            ending = process.told
        if ending is None:
            ending = endings.from_zombie(process.pid, process.start_ticks)
        return ending

    def look_at_root_once_more(self) -> None:
        """As long as it is not reaped, the kernel still tells of it."""
        if self.root is not None and endings.is_over(self.root.pid):
            self.on_root_over(self.root)

    def _settle(self, process: Process) -> None:
        """The process is gone, or may be."""
        if process is self.root:
            self.look_at_root_once_more()
        if process.pidfd >= 0:
            self._watch.forget(process.pidfd)
        elif proc_files.is_running(process.pid, process.start_ticks):
            return
        ending = self._ask(process)
        if ending is not None:
            self._finish(process, ending)
        else:
            self._undecided.setdefault(process.pid, (process, time.monotonic()))

    def _finish(self, process: Process, ending: Ending) -> None:
        if process.ending is not None:
            return
        process.ending = ending
        process.ended_t = self._writer.now()
        self.living.pop(process.pid, None)
        self._remember(process)
        self._undecided.pop(process.pid, None)
        self._let_go(process)
        if not process.was_over_when_heard_of:
            # An exec shortly before the end may not have been heard of.
            self._told_of_change(process, lambda: self._describe_from_box(process))
        if not process.is_listed:
            self._list(process)
        if not process.is_listed:
            return
        self.ended.append(process)
        self._writer.event(
            "process-ended",
            t_seconds=process.ended_t,
            pid=process.pid,
            start=process.start_ticks,
            **ending.in_event(),
        )
        self.on_end(process)

    def _let_go(self, process: Process) -> None:
        if process.pidfd >= 0:
            self._watch.forget(process.pidfd)
            os.close(process.pidfd)
            process.pidfd = -1

    def _parent_called(self, pid: int) -> Process | None:
        """Alive or gone. Who is asked for is remembered longer: of a shell that has ended there
        may be news of thousands of children to come, and each that ends wants to be remembered."""
        if pid in self._gone:
            self._gone[pid] = self._gone.pop(pid)
        return self.living.get(pid) or self._gone.get(pid)

    def _remember(self, process: Process) -> None:
        """News of its children may still be on the way."""
        self._gone.pop(process.pid, None)
        self._gone[process.pid] = process
        if len(self._gone) > MOST_REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _list(self, process: Process) -> None:
        if self.root is not None and not self.root.is_listed and process is not self.root:
            self._list(self.root)
        if self._listed_count >= MOST_LISTED:
            was_short = process.ending is not None and process.ending.is_clean
            is_too_many = self._listed_count >= 2 * MOST_LISTED
            if was_short or (process.ending is None and is_too_many):
                self.unlisted_count += 1
                return
        self._listed_count += 1
        process.is_listed = True
        self._writer.event(
            "process-started",
            t_seconds=process.started_t,
            pid=process.pid,
            start=process.start_ticks,
            ppid=process.parent_pid,
            **process.in_event(),
        )

    def root_ended(self, ending: Ending) -> None:
        if self.root is not None:
            self._finish(self.root, ending)

    def close(self) -> None:
        """Write down what is known, let go of the living: they are daemons now."""
        for process in self._unlisted:
            if process.is_alive and not process.is_listed:
                self._list(process)
        for process, _since in list(self._undecided.values()):
            self._finish(process, self._ask(process) or process.told or Ending())
        for process in self.living.values():
            self._let_go(process)
            if process.is_listed and process.role != "helper":  # a helper ends when it notices
                process.role = "daemon"
                self._writer.event(
                    "process-changed", pid=process.pid, start=process.start_ticks, role="daemon"
                )
        if self.unlisted_count:
            self._writer.event(
                "note", text=f"{self.unlisted_count} more short-lived processes are not listed"
            )


def _is_python(command: Sequence[str]) -> bool:
    return bool(command) and is_python(command[0])
