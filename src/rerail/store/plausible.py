"""Is this a number, a time, a pid that could have been observed?

In: any JSON value of a run folder. Out: yes or no. A folder may be damaged or made up; what fails
here counts as not observed, so that nobody later has to ask again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

FARTHEST_SECONDS = 1e11  # three thousand years; every calendar of the standard library has it
_LARGEST_PID = 1 << 31
LARGEST_COUNT = 1 << 53
_IS_TIME = ("_seconds", "_unix")


def is_number(value: Any) -> bool:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and math.isfinite(value)


def is_time(value: Any) -> bool:
    """Seconds since the start of a run, or since 1970."""
    return is_number(value) and abs(value) <= FARTHEST_SECONDS


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return is_whole(value) and value >= 0


def is_pid(value: Any) -> bool:
    return is_count(value) and value < _LARGEST_PID


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def is_claim(value: Any) -> bool:
    return isinstance(value, bool)


def tidy(fields: dict[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Take out fields that are not what their name says: they were not observed, nor is null.

    Names without a check belong to somebody else, a newer rerail perhaps, and stay.
    """
    for name in [name for name in fields if name in checks]:
        value = fields[name]
        if value is not None and not checks[name](value):
            del fields[name]
    return fields


def has_plausible_times(record: Any) -> bool:
    """Whether every field of a record that is named for a time holds one, or nothing."""
    return all(
        is_time(value)
        for field in dataclasses.fields(record)
        if field.name.endswith(_IS_TIME) and (value := getattr(record, field.name)) is not None
    )


def has_plausible_counts(record: Any) -> bool:
    """Whether every whole number of a record is a count below what any program reaches."""
    values = [getattr(record, field.name) for field in dataclasses.fields(record)]
    return all(is_count(value) and value <= LARGEST_COUNT for value in values if is_whole(value))
