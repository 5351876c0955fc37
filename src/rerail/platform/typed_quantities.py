"""Read sizes and lengths of time as people type them in options, variables and files.

In: text such as "500M", "5 GB", "90s", "2h". Out: bytes or seconds, or a `UsageError` that says
what to type. Promises: what is returned is finite and within MOST_BYTES or MOST_SECONDS. Upper
and lower case mean the same. GB is 1000 ** 3 bytes, GiB is 1024 ** 3, and a bare G is GiB.
"""

from __future__ import annotations

import re

from rerail.errors import UsageError
from rerail.platform.deadline import MOST_SECONDS

MOST_BYTES = 1024**6
_TYPED = re.compile(r"\s{0,9}([0-9]{1,30}(?:\.[0-9]{1,30})?)\s{0,9}([A-Za-z]{0,9})\s{0,9}")
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


def parse_size(text: str) -> int:
    """Return the bytes of "500M", "5GB" or "1.5 GiB"."""
    return int(_parse(text, _BYTES, MOST_BYTES, "size", "Write it like 500M, 5GB or 5GiB."))


def parse_duration(text: str, *, needs_unit: bool = False) -> float:
    """Return the seconds of "90", "90s", "30m", "2h", "30d" or "8w"."""
    units = {unit: seconds for unit, seconds in _SECONDS.items() if unit or not needs_unit}
    return _parse(text, units, MOST_SECONDS, "time", "Write it like 90s, 30m, 2h, 30d or 8w.")


def _parse(text: str, units: dict[str, int], most: float, kind: str, help_text: str) -> float:
    found = _TYPED.fullmatch(text)
    unit = units.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise UsageError(f"{text[:40]!r} is not a {kind}", help_text)
    value = float(found[1]) * unit
    if value > most:
        limit = "thirty years" if kind == "time" else "1024 PiB"
        raise UsageError(f"{text[:40]!r} is more than {limit}", help_text)
    return value
