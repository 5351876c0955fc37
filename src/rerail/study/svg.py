"""Small plots as SVG text: points with spread, lines over levels, attempts over time.

In: numbers and labels. Out: SVG that needs no script and no style beyond the page's classes.
Promises: every label is escaped; a plot of nothing is an empty text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 640
_LEFT, _RIGHT, _TOP, _ROW = 210, 24, 12, 22
_PLOT_HEIGHT = 190
_LINES_WIDTH, _LINES_LEFT, _LINES_RIGHT = 460, 64, 120  # on the right the lines are named


@dataclass(frozen=True)
class Point:
    label: str
    value: float
    spread: float | None = None


@dataclass(frozen=True)
class Line:
    label: str
    points: tuple[Point, ...]  # one per level, in the order of the levels


@dataclass(frozen=True)
class Bar:
    """A stretch of time on a row."""

    row: str
    start: float
    seconds: float
    tone: str  # ok, died, interrupted
    title: str


def dots(title: str, points: Sequence[Point]) -> str:
    """One row per point, with its spread as a bar."""
    if not points:
        return ""
    low, high = _range(points)
    height = _TOP + _ROW * len(points) + 30
    out = [_open(title, height), *_value_axis(low, high, height - 24)]
    for at, point in enumerate(points):
        y = _TOP + _ROW * at + _ROW / 2
        x = _across(point.value, low, high)
        out.append(
            f'<text class="label" x="{_LEFT - 10}" y="{y + 4:.1f}">{_cut(point.label)}</text>'
        )
        if point.spread:
            left = _across(point.value - point.spread, low, high)
            right = _across(point.value + point.spread, low, high)
            out.append(f'<path class="spread" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
        words = f"{point.label}: {point.value:.6g}"
        out.append(
            f'<circle class="tone0" cx="{x:.1f}" cy="{y:.1f}" r="4.5">'
            f"<title>{escape(words)}</title></circle>"
        )
    return "".join([*out, "</svg>"])


def lines(title: str, lines: Sequence[Line]) -> str:
    """Levels across, values up; one line per level of another axis, or a single one."""
    everything = [point for line in lines for point in line.points]
    if not everything:
        return ""
    low, high = _range(everything)
    levels = [point.label for point in lines[0].points]
    height = _PLOT_HEIGHT + 46
    out = [_open(title, height, _LINES_WIDTH)]
    for value in _ticks(low, high):
        y = _up(value, low, high)
        end = _LINES_WIDTH - _LINES_RIGHT
        out.append(f'<path class="grid" d="M{_LINES_LEFT} {y:.1f}H{end}"/>')
        out.append(f'<text class="label" x="{_LINES_LEFT - 8}" y="{y + 4:.1f}">{value:.4g}</text>')
    for at, level in enumerate(levels):
        x = _column(at, len(levels))
        out.append(f'<text class="middle" x="{x:.1f}" y="{_PLOT_HEIGHT + 30}">{_cut(level)}</text>')
    for tone, line in enumerate(lines):
        out += _line(line, tone % 5, low, high)
    return "".join([*out, "</svg>"])


def timeline(title: str, bars: Sequence[Bar]) -> str:
    if not bars:
        return ""
    rows = list(dict.fromkeys(bar.row for bar in bars))
    first = min(bar.start for bar in bars)
    last = max(bar.start + bar.seconds for bar in bars)
    span = max(last - first, 1e-9)
    height = _TOP + _ROW * len(rows) + 30
    out = [_open(title, height), *_value_axis(0.0, span, height - 24, " s")]
    for at, row in enumerate(rows):
        y = _TOP + _ROW * at
        out.append(f'<text class="label" x="{_LEFT - 10}" y="{y + 15}">{_cut(row)}</text>')
        for bar in (bar for bar in bars if bar.row == row):
            x = _across(bar.start - first, 0.0, span)
            width = max(2.0, _across(bar.start - first + bar.seconds, 0.0, span) - x)
            out.append(
                f'<rect class="{bar.tone}" x="{x:.1f}" y="{y + 4}" width="{width:.1f}"'
                f' height="{_ROW - 8}"><title>{escape(bar.title)}</title></rect>'
            )
    return "".join([*out, "</svg>"])


def _line(line: Line, tone: int, low: float, high: float) -> list[str]:
    places = [
        (_column(at, len(line.points)), _up(point.value, low, high), point)
        for at, point in enumerate(line.points)
    ]
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in places)
    out = [f'<path class="line line{tone}" d="M{way}"/>']
    for x, y, point in places:
        if point.spread:
            top = _up(point.value + point.spread, low, high)
            bottom = _up(point.value - point.spread, low, high)
            out.append(f'<path class="spread" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
        words = escape(f"{line.label} {point.label}: {point.value:.6g}".strip())
        out.append(
            f'<circle class="tone{tone}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>{words}</title></circle>"
        )
    if line.label and places:
        x, y, _ = places[-1]
        out.append(f'<text class="end tone{tone}" x="{x + 9:.1f}" y="{y + 4:.1f}">'
                   f"{_cut(line.label)}</text>")  # fmt: skip
    return out


def _open(title: str, height: float, width: int = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}"'
        ' xmlns="http://www.w3.org/2000/svg">'
    )


def _value_axis(low: float, high: float, y: float, unit: str = "") -> list[str]:
    out = []
    for value in _ticks(low, high):
        x = _across(value, low, high)
        out.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{y:.1f}"/>')
        out.append(f'<text class="middle" x="{x:.1f}" y="{y + 16:.1f}">{value:.4g}{unit}</text>')
    return out


def _range(points: Sequence[Point]) -> tuple[float, float]:
    low = min(point.value - (point.spread or 0.0) for point in points)
    high = max(point.value + (point.spread or 0.0) for point in points)
    margin = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within the range."""
    raw = (high - low) / most
    if not raw > 0 or not math.isfinite(raw):
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    first = math.ceil(low / step)
    return [at * step for at in range(first, math.floor(high / step) + 1)]


def _across(value: float, low: float, high: float) -> float:
    return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)


def _up(value: float, low: float, high: float) -> float:
    return _TOP + (high - value) / (high - low) * _PLOT_HEIGHT


def _column(at: int, count: int) -> float:
    room = _LINES_WIDTH - _LINES_LEFT - _LINES_RIGHT - 40
    return _LINES_LEFT + 20 + (room * at / (count - 1) if count > 1 else room / 2)


def _cut(text: str, most: int = 34) -> str:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")
