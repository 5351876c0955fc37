"""Screens and pages make room for the trainings that they show.

In: nothing. Out: this process, and what it starts, is scheduled behind others. Promises: raises
nothing. Not SCHED_IDLE, although that yields more: on a machine whose cores all train, a screen
would get a third of a percent of one and take seconds to draw. With a niceness of 10 it gets a
tenth.
"""

from __future__ import annotations

import os
from contextlib import suppress

NICENESS = 10


def make_room_for_others() -> None:
    with suppress(OSError):
        os.nice(max(0, NICENESS - os.nice(0)))
    with suppress(OSError, AttributeError):  # not on macOS
        # A batch process does not interrupt whoever runs when it wakes up: its turn comes later.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
