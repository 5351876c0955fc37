"""What each axis does to a metric, and which axes act together.

In: values of one metric with the parameters of their cells. Out: level means, main effects and
two-way interactions. Pure arithmetic on a complete grid: where cells are missing, the levels that
miss most are left out until the rest is complete, and named; a mean over different neighbours would
compare what is not comparable.

A main effect's `size` is its highest level mean less its lowest. An interaction is what is left of
the mean of a pair of levels when both main effects are taken away; its `size` is the range of
that. `share` is the part of the variance between configurations. The standard error comes from the
spread over seeds, and without several seeds there is none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerail.study.model import Axis, Value

Place = tuple[Value, ...]  # one level of every axis


@dataclass(frozen=True)
class Sample:
    parameters: Mapping[str, Value]
    value: float


@dataclass(frozen=True)
class Summary:
    """Mean and spread (standard deviation over seeds; None for a single value)."""

    mean: float
    spread: float | None
    count: int


@dataclass(frozen=True)
class MainEffect:
    axis: str
    levels: tuple[tuple[Value, Summary], ...]
    size: float
    share: float | None  # None: nothing varies
    standard_error: float | None


@dataclass(frozen=True)
class Interaction:
    axes: tuple[str, str]
    means: dict[tuple[Value, Value], float]
    size: float
    share: float | None


@dataclass(frozen=True)
class Effects:
    mains: tuple[MainEffect, ...]
    interactions: tuple[Interaction, ...]
    noise: float | None  # standard deviation over seeds, pooled over configurations
    configurations: int
    left_out: tuple[tuple[str, Value], ...]  # levels without which the grid is complete


def summarise(values: Sequence[float]) -> Summary:
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Summary(mean, None, len(values))
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Summary(mean, math.sqrt(variance), len(values))


def effects(axes: Sequence[Axis], samples: Sequence[Sample]) -> Effects | None:
    """None where no two configurations can be compared."""
    varied = [axis for axis in axes if len(axis.values) > 1]
    if not varied:
        return None
    by_place = _by_place(varied, samples)
    levels, left_out = _complete(varied, by_place)
    grid = list(itertools.product(*levels))
    if len(grid) < 2:
        return None
    means = {place: summarise(by_place[place]).mean for place in grid}
    grand = math.fsum(means.values()) / len(means)
    total = math.fsum((mean - grand) ** 2 for mean in means.values())
    noise, per_place = _noise([by_place[place] for place in grid])
    mains = [
        _main(varied[at], at, levels[at], by_place, grid, means, grand, total, noise, per_place)
        for at in range(len(varied))
        if len(levels[at]) > 1
    ]
    pairs = [
        _interaction(varied, a, b, levels, means, grand, total)
        for a, b in itertools.combinations(range(len(varied)), 2)
        if len(levels[a]) > 1 and len(levels[b]) > 1
    ]
    return Effects(tuple(mains), tuple(pairs), noise, len(grid), tuple(left_out))


def _by_place(axes: Sequence[Axis], samples: Sequence[Sample]) -> dict[Place, list[float]]:
    found: dict[Place, list[float]] = {}
    for sample in samples:
        if all(axis.name in sample.parameters for axis in axes):
            place = tuple(sample.parameters[axis.name] for axis in axes)
            found.setdefault(place, []).append(sample.value)
    return found


def _complete(
    axes: Sequence[Axis], by_place: Mapping[Place, Sequence[float]]
) -> tuple[list[list[Value]], list[tuple[str, Value]]]:
    """Levels whose grid has a value everywhere."""
    levels = [list(axis.values) for axis in axes]
    left_out: list[tuple[str, Value]] = []
    while True:
        missing = [p for p in itertools.product(*levels) if p not in by_place]
        if not missing:
            return levels, left_out
        counts = [
            (sum(place[at] == value for place in missing) * len(own), at, value)
            for at, own in enumerate(levels)
            for value in own
        ]
        _, at, value = max(counts, key=lambda entry: entry[0])
        levels[at].remove(value)
        left_out.append((axes[at].name, value))


def _noise(groups: Sequence[Sequence[float]]) -> tuple[float | None, float]:
    """Pooled standard deviation over seeds, and how many values a place has on average."""
    degrees = sum(len(group) - 1 for group in groups)
    per_place = sum(len(group) for group in groups) / len(groups)
    if degrees == 0:
        return None, per_place
    squares = 0.0
    for group in groups:
        mean = math.fsum(group) / len(group)
        squares += math.fsum((value - mean) ** 2 for value in group)
    return math.sqrt(squares / degrees), per_place


def _main(
    axis: Axis,
    at: int,
    levels: Sequence[Value],
    by_place: Mapping[Place, Sequence[float]],
    grid: Sequence[Place],
    means: Mapping[Place, float],
    grand: float,
    total: float,
    noise: float | None,
    per_place: float,
) -> MainEffect:
    rows = []
    for level in levels:
        places = [place for place in grid if place[at] == level]
        everything = [value for place in places for value in by_place[place]]
        mean = math.fsum(means[place] for place in places) / len(places)
        rows.append((level, Summary(mean, summarise(everything).spread, len(everything))))
    found = [summary.mean for _, summary in rows]
    each = len(grid) / len(levels)
    squares = each * math.fsum((mean - grand) ** 2 for mean in found)
    error = None if noise is None else noise * math.sqrt(2.0 / (each * per_place))
    share = squares / total if total > 0 else None
    return MainEffect(axis.name, tuple(rows), max(found) - min(found), share, error)


def _interaction(
    axes: Sequence[Axis],
    a: int,
    b: int,
    levels: Sequence[Sequence[Value]],
    means: Mapping[Place, float],
    grand: float,
    total: float,
) -> Interaction:
    def mean_of(**fixed: Value) -> float:
        chosen = [
            mean
            for place, mean in means.items()
            if ("a" not in fixed or place[a] == fixed["a"])
            and ("b" not in fixed or place[b] == fixed["b"])
        ]
        return math.fsum(chosen) / len(chosen)

    pairs = {(x, y): mean_of(a=x, b=y) for x in levels[a] for y in levels[b]}
    rest = {(x, y): mean - mean_of(a=x) - mean_of(b=y) + grand for (x, y), mean in pairs.items()}
    each = len(means) / len(pairs)
    squares = each * math.fsum(value**2 for value in rest.values())
    size = max(rest.values()) - min(rest.values())
    share = squares / total if total > 0 else None
    return Interaction((axes[a].name, axes[b].name), pairs, size, share)
