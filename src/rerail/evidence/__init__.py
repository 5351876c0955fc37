"""Observations, each with its source, from a run folder or from the text of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.evidence.run.collect import collect_run
    from rerail.evidence.run.crashes import faulting_frame, read_crashes
    from rerail.evidence.run.libraries import libraries_by_process
    from rerail.evidence.run.material import RecordedRun, read_material
    from rerail.evidence.run.memory import limit_uses
    from rerail.evidence.run.places import process_name
    from rerail.evidence.run.stalls import read_stalls
    from rerail.evidence.run.trend import trend_of
    from rerail.evidence.text.logs import TextEvidence, collect_logs, collect_stream, observe_text

__all__ = [
    "RecordedRun",
    "TextEvidence",
    "collect_logs",
    "collect_run",
    "collect_stream",
    "faulting_frame",
    "libraries_by_process",
    "limit_uses",
    "observe_text",
    "process_name",
    "read_crashes",
    "read_material",
    "read_stalls",
    "trend_of",
]

__getattr__ = door(
    __name__,
    {
        "RecordedRun": "run.material",
        "TextEvidence": "text.logs",
        "collect_logs": "text.logs",
        "collect_run": "run.collect",
        "collect_stream": "text.logs",
        "faulting_frame": "run.crashes",
        "libraries_by_process": "run.libraries",
        "limit_uses": "run.memory",
        "observe_text": "text.logs",
        "process_name": "run.places",
        "read_crashes": "run.crashes",
        "read_material": "run.material",
        "read_stalls": "run.stalls",
        "trend_of": "run.trend",
    },
)
