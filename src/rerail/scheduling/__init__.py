"""Where recorded runs of trials and study cells take place.

`open_scheduler(name, jobs)` is the door. A scheduler starts a `Task` and gives a `RunningTask`
to poll, look into and stop; every run ends up as a run folder in the task's store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.scheduling.local import LocalTask, available_bytes, own_cores
    from rerail.scheduling.opening import NAMES, open_scheduler
    from rerail.scheduling.recording_process import TaskOptions
    from rerail.scheduling.task import NotEnoughMemory, RunningTask, Scheduler, Task

__all__ = [
    "NAMES",
    "LocalTask",
    "NotEnoughMemory",
    "RunningTask",
    "Scheduler",
    "Task",
    "TaskOptions",
    "available_bytes",
    "open_scheduler",
    "own_cores",
]

__getattr__ = door(
    __name__,
    {
        "LocalTask": "local",
        "NAMES": "opening",
        "NotEnoughMemory": "task",
        "RunningTask": "task",
        "Scheduler": "task",
        "Task": "task",
        "TaskOptions": "recording_process",
        "available_bytes": "local",
        "open_scheduler": "opening",
        "own_cores": "local",
    },
)
