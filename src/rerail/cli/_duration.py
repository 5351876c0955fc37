"""A length of time as people type it: 90s, 30m, 2h."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip())
        if found is None or found[2] not in _UNITS or float(found[1]) <= 0.0:
            self.fail(f"{value!r} is not a time: write 90s, 30m or 2h")
        return float(found[1]) * _UNITS[found[2]]
