"""One process of the tree as the recorder knows it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field

from rerail.recorder.tree.endings import Ending
from rerail.records import ProcessRecord


@dataclass
class Process:
    pid: int
    start_ticks: int
    parent_pid: int
    started_t: float
    pidfd: int = -1
    role: str = "child"
    name: str = ""
    command: list[str] = field(default_factory=list)
    rank: int | None = None
    is_listed: bool = False
    was_over_when_heard_of: bool = False  # its birth and its end were told together
    looked_in: int = -1  # the batch of news in which /proc was last read for it
    told: Ending | None = None  # what the connector said, until something better is known
    ended_t: float | None = None
    ending: Ending | None = None

    @property
    def key(self) -> str:
        return f"{self.pid}-{self.start_ticks}"

    @property
    def is_alive(self) -> bool:
        return self.ending is None

    def send(self, number: int) -> None:
        """A signal, to this very process and to none that got its pid later; gone is fine."""
        try:
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, number)
            else:
                os.kill(self.pid, number)
        except (OSError, AttributeError):
            pass

    def record(self) -> ProcessRecord:
        ending = self.ending or Ending()
        return ProcessRecord(
            pid=self.pid,
            start_ticks=self.start_ticks,
            parent_pid=self.parent_pid,
            role=self.role,
            name=self.name,
            command=self.command,
            started_t_seconds=self.started_t,
            ended_t_seconds=self.ended_t,
            exit_code=ending.exit_code,
            signal=ending.signal,
            dumped_core=ending.dumped_core,
            ending_source=ending.source,
            rank=self.rank,
        )
