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
    from rerail.recorder.metrics_file import Metrics, limits_of, write_metrics
    from rerail.recorder.run.gates import parse_gate
    from rerail.recorder.run.launch import CommandNotStarted, find_program
    from rerail.recorder.run.record import record, record_living
    from rerail.recorder.run.recording import Recording, RunOptions
    from rerail.recorder.saying import end_open_line
    from rerail.recorder.stalls.judgement import FIRST_PHASE_SECONDS
    from rerail.recorder.stalls.now import look_now
    from rerail.recorder.stalls.places import (
        Place,
        find_places,
        most_workers,
        thread_called,
        what_it_runs,
        who_is_who,
    )
    from rerail.recorder.vitals import libraries

__all__ = [
    "FIRST_PHASE_SECONDS",
    "CommandNotStarted",
    "Metrics",
    "Place",
    "Recording",
    "RunOptions",
    "end_open_line",
    "find_places",
    "find_program",
    "libraries",
    "limits_of",
    "look_now",
    "most_workers",
    "parse_gate",
    "record",
    "record_apart",
    "record_living",
    "surroundings",
    "thread_called",
    "what_it_runs",
    "who_is_who",
    "write_metrics",
]

__getattr__ = door(
    __name__,
    {
        "CommandNotStarted": "run.launch",
        "FIRST_PHASE_SECONDS": "stalls.judgement",
        "Metrics": "metrics_file",
        "Place": "stalls.places",
        "Recording": "run.recording",
        "RunOptions": "run.recording",
        "end_open_line": "saying",
        "find_places": "stalls.places",
        "find_program": "run.launch",
        "libraries": "vitals.libraries",
        "limits_of": "metrics_file",
        "look_now": "stalls.now",
        "most_workers": "stalls.places",
        "thread_called": "stalls.places",
        "what_it_runs": "stalls.places",
        "parse_gate": "run.gates",
        "record": "run.record",
        "record_apart": "apart",
        "record_living": "run.record",
        "surroundings": "surroundings",
        "who_is_who": "stalls.places",
        "write_metrics": "metrics_file",
    },
)
