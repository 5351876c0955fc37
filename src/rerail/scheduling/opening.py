"""Which scheduler answers to a name."""

from __future__ import annotations

from rerail.errors import UsageError
from rerail.scheduling.task import Scheduler

NAMES = ("local", "ray")


def open_scheduler(name: str = "local", jobs: int = 1) -> Scheduler:
    if jobs < 1:
        raise UsageError(f"--jobs is {jobs}: at least one job is needed")
    if name == "local":
        from rerail.scheduling.local import LocalScheduler

        return LocalScheduler(jobs)
    if name == "ray":
        from rerail.scheduling.ray_cluster import RayScheduler

        return RayScheduler(jobs)
    raise UsageError(f"there is no scheduler {name!r}", f"There are: {', '.join(NAMES)}.")
