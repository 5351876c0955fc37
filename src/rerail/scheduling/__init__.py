"""Where recorded runs of trials and study cells take place.

`open_scheduler(name, jobs)` is the door. A scheduler starts a `Task` and gives a `RunningTask`
to poll, look into and stop; every run ends up as a run folder in the task's store.
"""

from rerail.scheduling.opening import NAMES, open_scheduler
from rerail.scheduling.task import NotEnoughMemory, RunningTask, Scheduler, Task

__all__ = ["NAMES", "NotEnoughMemory", "RunningTask", "Scheduler", "Task", "open_scheduler"]
