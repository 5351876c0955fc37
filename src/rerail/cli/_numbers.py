"""Types of options: a length of time (90s, 30m, 2h), a number within bounds.

What comes through is finite, and no time is longer than MOST_SECONDS: `nan` compares with nothing,
so a range alone lets it pass, and timers of the system refuse what is much longer.
"""

from __future__ import annotations

import math
from typing import Any

import click

from rerail.errors import UsageError
from rerail.platform.deadline import MOST_SECONDS
from rerail.platform.typed_quantities import parse_duration

_TOO_LONG = "that is longer than thirty years"


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except UsageError as error:
            self.fail(f"{error.message}. {error.help_text}", param, ctx)
        if seconds <= 0.0:
            self.fail(f"{value!r} is no time at all", param, ctx)
        return seconds


class FiniteRange(click.FloatRange):
    """As click's own, without what is no number."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


class WholeRange(click.IntRange):
    name = "whole number"


class Seconds(FiniteRange):
    def __init__(self, least: float, *, is_above: bool = False) -> None:
        super().__init__(min=least, min_open=is_above)

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        seconds = super().convert(value, param, ctx)
        if seconds > MOST_SECONDS:
            self.fail(_TOO_LONG, param, ctx)
        return seconds
