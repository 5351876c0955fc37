"""The records of many nodes as those of one run, on one clock.

In: the record of every node with the shift of its clock. Out: one `RecordedRun` with all processes,
black boxes, crashes and stalls, for the reader that asks which rank failed first. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from rerail.evidence import RecordedRun

T = TypeVar("T")


def merged(runs: Sequence[tuple[RecordedRun, float]]) -> RecordedRun:
    """`runs`: each with the seconds to add to its times; the first lends its run.json."""
    parts: dict[str, Any] = {
        name: [item for run, seconds in runs for item in shifted(getattr(run, name), seconds)]
        for name in ("processes", "boxes", "crashes", "stalls", "events")
    }
    parts["events"].sort(key=lambda event: event.t_seconds)
    return dataclasses.replace(runs[0][0], **parts)


def shifted(record: T, seconds: float) -> T:
    """The same with every time in it moved; lists and records inside it too."""
    if isinstance(record, list):
        return [shifted(each, seconds) for each in record]  # type: ignore[return-value]
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        return record
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name.endswith("t_seconds") and isinstance(value, float):
            changes[field.name] = value + seconds
        elif isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = shifted(value, seconds)
    return dataclasses.replace(record, **changes) if changes else record
