"""Runs in MLflow, W&B and TensorBoard that a dead program left behind: closed, with the cause.

`close_tracked_runs` starts the process that does it and says what came of it. docs/trackers.md has
each tracker, docs/design/what-may-be-written-into-a-tracker.md what is written and what never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.trackers.closing import Closing, close_tracked_runs
    from rerail.trackers.event_file import write_event_file

__all__ = ["Closing", "close_tracked_runs", "write_event_file"]

__getattr__ = door(
    __name__,
    {
        "Closing": "closing",
        "close_tracked_runs": "closing",
        "write_event_file": "event_file",
    },
)
