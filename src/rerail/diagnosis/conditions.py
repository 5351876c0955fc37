"""Does an observation meet the conditions of a catalogue's sign?

A condition is a plain value, a list of accepted values, or a comparison written as text: ">= 0.9",
"< 3", "!= main", "~ regex" (found in the field's text), "!~ regex", "present", "absent".
A field that was not observed meets nothing but "absent", "!=" and "!~".
"""

from __future__ import annotations

import functools
import re
from typing import Any

from rerail.platform.patterns import LinearPattern, linear

_COMPARISON = re.compile(r"(>=|<=|!=|!~|>|<|~)\s*(.*)", re.DOTALL)


@functools.cache
def _searched(pattern: str) -> LinearPattern:
    return linear(pattern)


def meets(data: dict[str, Any], when: dict[str, Any]) -> bool:
    return all(_holds(data.get(name), condition) for name, condition in when.items())


def fits(facts: dict[str, Any], when: dict[str, Any]) -> bool:
    """The same for the facts of a run; `leak.what` is the `what` of the fact `leak`."""
    return all(_holds(_fact(facts, name), condition) for name, condition in when.items())


def _fact(facts: dict[str, Any], name: str) -> Any:
    value: Any = facts
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _holds(value: Any, condition: Any) -> bool:
    if isinstance(condition, list):
        return value in condition
    if condition == "present":
        return value not in (None, "", [])
    if condition == "absent":
        return value in (None, "", [])
    if isinstance(condition, str) and (found := _COMPARISON.fullmatch(condition)):
        return _compares(value, found.group(1), found.group(2))
    return bool(value == condition)


def _compares(value: Any, operator: str, operand: str) -> bool:
    if operator in ("~", "!~"):
        text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value or "")
        return (_searched(operand).search(text) is not None) == (operator == "~")
    if operator == "!=":
        return str(value) != operand
    if value is None or isinstance(value, (list, dict)):
        return False
    try:
        left, right = float(value), float(operand)
    except ValueError:
        return False
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[
        operator
    ]
