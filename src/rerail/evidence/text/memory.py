"""Memory as a log tells of it: GPU allocators' own accounts, and printed usage that keeps growing.

In: clean lines. Out: `GpuShortage` for each out-of-memory message with its numbers in bytes, and
`PrintedGrowth` for each series of printed host-memory figures that grew to the end.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rerail.evidence.text.lines import Line
from rerail.platform.patterns import linear
from rerail.platform.wordings import wordings

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
MOST_SHORTAGES = 6  # kept of a log


def to_bytes(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit.lower()])


@dataclass(frozen=True)
class GpuShortage:
    line: Line
    backend: str
    requested_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allocated_bytes: int | None = None
    idle_bytes: int | None = None  # reserved by the allocator but unallocated

    @property
    def idle_share(self) -> float | None:
        """Of the whole device, what was reserved but idle."""
        if self.idle_bytes is None or not self.total_bytes:
            return None
        return round(self.idle_bytes / self.total_bytes, 4)

    @property
    def looks_fragmented(self) -> bool:
        """The request would have fitted into what was reserved but idle, together with what was
        free; and the idle part is more than rounding."""
        if not self.requested_bytes or self.idle_bytes is None:
            return False
        whole = self.total_bytes or self.allocated_bytes or 0
        is_large = self.idle_bytes >= max(0.02 * whole, 256 << 20)
        free = self.free_bytes or 0
        return is_large and free < self.requested_bytes <= self.idle_bytes + free


_WORDINGS = wordings("memory")
_SHORTAGE = _WORDINGS["shortage"]
_PARTS = {each.says: each.pattern for each in _WORDINGS.of("account")}


def find_shortages(lines: Sequence[Line]) -> list[GpuShortage]:
    """The last of them, MOST_SHORTAGES at most, in order."""
    found: list[GpuShortage] = []
    for line in reversed(lines):
        if "ut of memory" in line.text and (match := _SHORTAGE.search(line.text)):
            found.append(_shortage(line, match.group("backend").lower()))
            if len(found) == MOST_SHORTAGES:
                break
    return found[::-1]


def _shortage(line: Line, backend: str) -> GpuShortage:
    numbers: dict[str, int] = {}
    for name, pattern in _PARTS.items():
        if match := pattern.search(line.text):
            groups = [group for group in match.groups() if group is not None]
            try:
                numbers[name] = to_bytes(groups[0], groups[1] if len(groups) > 1 else "")
            except (ValueError, KeyError):
                continue
    reserved = numbers.pop("reserved_bytes", None)
    if reserved is not None and "allocated_bytes" in numbers:
        # The older message gives the sum; what is idle is the difference.
        numbers["idle_bytes"] = max(0, reserved - numbers["allocated_bytes"])
    return GpuShortage(line, backend, **numbers)


@dataclass(frozen=True)
class PrintedGrowth:
    first: Line
    last: Line
    points: int
    first_value: float
    last_value: float
    unit: str


# A label (group 1) with a number (group 2) behind it; the unit may be missing where the label
# says memory.
_QUANTITY = linear(
    r"(?P<label>[A-Za-z_][\w ]{0,40}?)\s*(?:\([^)]*\))?\s*[:=]?\s*"
    r"(?P<number>\d[\d,]*(?:\.\d+)?)\s*"
    r"(?:(?P<unit>[KMGT]i?B\b|%|bytes\b)|(?P<letter>[KMG])(?:[^\w/]|$))?",
    re.IGNORECASE,
)
_MEMORY_WORDS = _WORDINGS.words
_ABOUT_MEMORY = _WORDINGS["about-memory"]
_FALLING = _WORDINGS["falling"]
_STILL = _WORDINGS["still"]
_DEVICE = _WORDINGS["of-a-device"]
_BARE_NUMBER = _WORDINGS["bare-number"]
_DIGITS = linear(r"[-+]?\d[\d,.]*")
_COLUMNS = frozenset({"RSS", "RES"})
_TABLE_NUMBER = linear(r"(\d+(?:\.\d+)?)([KMGTkmgt]?)i?")
_MOST_TABLE_LINES = 4000
_MOST_SERIES = 400
_MOST_MEMORY_LINES = 2000
_MOST_FIGURES = 12  # of one line


def find_printed_growth(lines: Sequence[Line]) -> list[PrintedGrowth]:
    series = _columns(lines)
    for line in _about_memory(lines):
        if len(series) > _MOST_SERIES:
            break
        before, done = "", 0  # the line up to the figure, its numbers made alike
        for match in itertools.islice(_QUANTITY.finditer(line.text), _MOST_FIGURES):
            label, number, unit, letter = match.groups()
            unit = (unit or letter or "").lower()
            if _STILL.search(label) or not (unit or _ABOUT_MEMORY.search(label)):
                continue
            value = float(number.replace(",", ""))
            if unit not in ("", "%", "bytes"):
                value *= _UNITS[unit[0]]
            before += _DIGITS.sub("0", line.text[done : match.start(2)])
            done = match.start(2)
            series[before[-80:]].append((line, -value if _FALLING.search(label) else value))
    return [growth for points in series.values() if (growth := _growth(points))]


def _columns(lines: Sequence[Line]) -> dict[str, list[tuple[Line, float]]]:
    """Used memory in tables that are printed again and again: `free`, `ps`, `top`.

    The header names the column; `free` begins its rows with a name that has no header, and in the
    others the process's number tells whose row it is.
    """
    series: dict[str, list[tuple[Line, float]]] = defaultdict(list)
    column, whose, is_free = None, None, False
    for line in lines[-_MOST_TABLE_LINES:]:
        if len(line.text) > 400:
            continue
        words = line.text.split()
        if "used" in words and "free" in words and words[0] == "total":
            column, whose, is_free = words.index("used") + 1, 0, True
        elif "PID" in words and (named := _COLUMNS.intersection(words)):
            column, whose, is_free = words.index(sorted(named)[0]), words.index("PID"), False
        elif column is not None and whose is not None and len(words) > max(column, whose):
            if is_free and words[0] != "Mem:":
                continue
            if (value := _table_value(words[column])) is not None:
                series[f"table {words[whose]}"].append((line, value))
        if len(series) > _MOST_SERIES:
            break
    return series


def _table_value(word: str) -> float | None:
    found = _TABLE_NUMBER.fullmatch(word)
    return float(found.group(1)) * _UNITS[found.group(2).lower()] if found else None


def _about_memory(lines: Sequence[Line]) -> list[Line]:
    """The last lines that speak of the host's memory, in order."""
    found: list[Line] = []
    for line in reversed(lines):
        if len(line.text) > 400 or not any(word in line.text.lower() for word in _MEMORY_WORDS):
            continue
        if _ABOUT_MEMORY.search(line.text) and not _is_of_a_device(line.text):
            found.append(line)
            if len(found) >= _MOST_MEMORY_LINES:
                break
    return found[::-1]


def _is_of_a_device(text: str) -> bool:
    if _DEVICE.search(text):
        return True
    bare = _BARE_NUMBER.search(text)
    return bare is not None and not bare.group("unit")


def _growth(points: list[tuple[Line, float]]) -> PrintedGrowth | None:
    """Growth that went on to the end: most steps rise, and the last third is above the middle.

    How much is enough depends on how much was printed: over a few lines only growth of some per
    cent says anything, over dozens a steady creep does too.
    """
    if len(points) < 4:
        return None
    points = points[-400:]
    values = [value for _, value in points]
    pairs = [(a, b) for a, b in itertools.pairwise(values) if a != b]
    if not pairs:
        return None
    rises = sum(b > a for a, b in pairs) / len(pairs)
    third = max(1, len(values) // 3)
    middle = values[third:-third] or values[:1]
    late = sum(values[-third:]) / third
    size = abs(values[0]) or 1.0
    gain = (values[-1] - values[0]) / size
    enough = 0.04 if values[0] > 0 else 0.004  # of what is available little goes per step
    is_steady = rises >= 0.9 and len(pairs) >= 6
    if rises < 0.6 or gain < (0.001 if is_steady else enough):
        return None
    if late - sum(middle) / len(middle) < 0.1 * gain * size:
        return None
    first, last = points[0][0], points[-1][0]
    return PrintedGrowth(first, last, len(points), abs(values[0]), abs(values[-1]), "bytes")
