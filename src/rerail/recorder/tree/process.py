"""One process of the tree as the recorder knows it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import Any

from rerail.recorder.tree.endings import Ending
from rerail.recorder.tree.roles import RankPlace
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
    place: RankPlace = field(default_factory=RankPlace)
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
    def rank(self) -> int | None:
        return self.place.rank

    @property
    def is_alive(self) -> bool:
        return self.ending is None

    def in_event(self) -> dict[str, Any]:
        """The fields of `process-started` that an exec may change."""
        told: dict[str, Any] = {
            "role": self.role,
            "name": self.name,
            "command": self.command,
            "rank": self.place.rank,
        }
        if self.place.world_size is not None:
            told["world_size"] = self.place.world_size
        if self.place.node is not None:
            told["node"] = self.place.node
        return told

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
            rank=self.place.rank,
            world_size=self.place.world_size,
            node=self.place.node,
        )
