"""Main effects and interactions are what the textbook says, and say what they leave out."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from rerail.study.effects import Sample, effects, summarise
from rerail.study.model import Axis

VALUES = st.floats(-100, 100, allow_nan=False)


def axes_of(*sizes: int) -> list[Axis]:
    return [Axis(f"x{at}", tuple(range(size))) for at, size in enumerate(sizes)]


def samples_of(axes: list[Axis], table: np.ndarray) -> list[Sample]:
    return [
        Sample({axis.name: at for axis, at in zip(axes, place, strict=True)}, float(table[place]))
        for place in itertools.product(*(range(len(axis.values)) for axis in axes))
    ]


@given(st.lists(VALUES, min_size=12, max_size=12))
def test_a_two_by_three_by_two_grid_against_numpy(values: list[float]) -> None:
    axes = axes_of(2, 3, 2)
    table = np.array(values).reshape(2, 3, 2)
    found = effects(axes, samples_of(axes, table))
    assert found is not None and found.configurations == 12 and not found.left_out
    total = ((table - table.mean()) ** 2).sum()
    for at, main in enumerate(found.mains):
        others = tuple(other for other in range(3) if other != at)
        means = table.mean(axis=others)
        assert np.allclose([level.mean for _, level in main.levels], means)
        assert math.isclose(main.size, np.ptp(means), abs_tol=1e-9)
        if total > 1e-6 and main.share is not None:
            squares = (12 / len(means)) * ((means - table.mean()) ** 2).sum()
            assert math.isclose(main.share, squares / total, rel_tol=1e-6, abs_tol=1e-9)
    pair = next(each for each in found.interactions if each.axes == ("x0", "x1"))
    both = table.mean(axis=2)
    rest = both - both.mean(axis=1, keepdims=True) - both.mean(axis=0, keepdims=True) + both.mean()
    assert math.isclose(pair.size, np.ptp(rest), abs_tol=1e-8)


@given(st.lists(VALUES, min_size=4, max_size=4))
def test_shares_of_a_two_by_two_grid_add_up_to_one(values: list[float]) -> None:
    axes = axes_of(2, 2)
    table = np.array(values).reshape(2, 2)
    assume(np.ptp(table) > 1e-3)
    found = effects(axes, samples_of(axes, table))
    assert found is not None
    shares = [main.share for main in found.mains] + [each.share for each in found.interactions]
    assert math.isclose(sum(share or 0.0 for share in shares), 1.0, rel_tol=1e-6)


def test_additive_axes_have_no_interaction() -> None:
    axes = axes_of(3, 2)
    table = np.add.outer([0.0, 1.0, 5.0], [0.0, 2.0])
    found = effects(axes, samples_of(axes, table))
    assert found is not None and found.interactions[0].size < 1e-12


def test_a_missing_cell_leaves_its_level_out_and_says_so() -> None:
    axes = axes_of(3, 2)
    samples = samples_of(axes, np.arange(6.0).reshape(3, 2))
    missing = [s for s in samples if dict(s.parameters) != {"x0": 2, "x1": 1}]
    found = effects(axes, missing)
    assert found is not None
    assert found.left_out == (("x0", 2),) and found.configurations == 4


def test_seeds_give_spread_and_standard_error() -> None:
    axes = axes_of(2)
    samples = [Sample({"x0": at}, at + noise) for at in (0, 1) for noise in (-0.1, 0.1)]
    found = effects(axes, samples)
    assert found is not None and found.noise is not None
    assert math.isclose(found.noise, math.sqrt(0.02))
    assert math.isclose(found.mains[0].standard_error or 0.0, found.noise)
    assert math.isclose(found.mains[0].size, 1.0)


def test_nothing_to_compare() -> None:
    assert effects(axes_of(2), []) is None
    assert effects(axes_of(1), [Sample({"x0": 0}, 1.0)]) is None
    assert effects(axes_of(2), [Sample({"other": 0}, 1.0)]) is None
    assert summarise([2.0]).spread is None


@given(st.lists(st.integers(1, 2), max_size=3), st.booleans())
def test_a_metric_that_few_cells_or_none_have(sizes: list[int], is_first_there: bool) -> None:
    axes = axes_of(*sizes)
    samples = samples_of(axes, np.zeros(sizes))[: int(is_first_there)]
    assert effects(axes, samples) is None
