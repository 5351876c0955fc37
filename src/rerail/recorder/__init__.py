"""The flight recorder: runs the command, and writes down what happened.

`record(command, store, options)` is the door; what it writes is in docs/run-folder.md, what it
promises in docs/recorder.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.recorder import surroundings
    from rerail.recorder.apart import record_apart
    from rerail.recorder.run.launch import CommandNotStarted, find_program
    from rerail.recorder.run.record import record
    from rerail.recorder.run.recording import Recording, RunOptions
    from rerail.recorder.stalls.judgement import FIRST_PHASE_SECONDS
    from rerail.recorder.vitals import libraries

__all__ = [
    "FIRST_PHASE_SECONDS",
    "CommandNotStarted",
    "Recording",
    "RunOptions",
    "find_program",
    "libraries",
    "record",
    "record_apart",
    "surroundings",
]

__getattr__ = door(
    __name__,
    {
        "CommandNotStarted": "run.launch",
        "FIRST_PHASE_SECONDS": "stalls.judgement",
        "Recording": "run.recording",
        "RunOptions": "run.recording",
        "find_program": "run.launch",
        "libraries": "vitals.libraries",
        "record": "run.record",
        "record_apart": "apart",
        "surroundings": "surroundings",
    },
)
