"""How a run stands at this moment, as plain data: for a screen, a page or a program.

`Follower(folder).look()` reads what was added since the last look, `build` makes a `LiveView` of
it, which `report.live_screen` draws and `rerail show --json` prints; `take_snapshot` looks once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.live.alerts import Alert, GateLine, gates_of
    from rerail.live.follower import Follower, take_snapshot
    from rerail.live.machine import Gauge
    from rerail.live.memory import Memory, memory_of
    from rerail.live.processes import ProcessLine
    from rerail.live.progress import Loss, Progress, loss_of, progress_of
    from rerail.live.snapshot import Snapshot
    from rerail.live.view import LiveView, build, one_line, readable

__all__ = [
    "Alert",
    "Follower",
    "GateLine",
    "Gauge",
    "LiveView",
    "Loss",
    "Memory",
    "ProcessLine",
    "Progress",
    "Snapshot",
    "build",
    "gates_of",
    "loss_of",
    "memory_of",
    "one_line",
    "progress_of",
    "readable",
    "take_snapshot",
]

__getattr__ = door(
    __name__,
    {
        "Follower": "follower",
        "GateLine": "alerts",
        "Gauge": "machine",
        "LiveView": "view",
        "Loss": "progress",
        "Memory": "memory",
        "ProcessLine": "processes",
        "Progress": "progress",
        "Snapshot": "snapshot",
        "Alert": "alerts",
        "build": "view",
        "gates_of": "alerts",
        "loss_of": "progress",
        "memory_of": "memory",
        "progress_of": "progress",
        "one_line": "view",
        "readable": "view",
        "take_snapshot": "follower",
    },
)
