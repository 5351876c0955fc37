"""The colour space goes there and back, keeps neighbours together and can be learned through."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lowlight.hvi import HVI

unit = st.floats(0, 1, width=32)
eight_bit = st.integers(0, 255).map(lambda value: value / 255)
colours = st.lists(st.tuples(*3 * (unit | eight_bit,)), min_size=1, max_size=40)
collapses = st.floats(0.02, 3.0)


def as_batch(rows: list[tuple[float, float, float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32).T[None, :, :, None]


@given(colours, collapses)
def test_there_and_back_is_the_same_colour(
    rows: list[tuple[float, float, float]], collapse: float
) -> None:
    space, rgb = HVI(collapse), as_batch(rows)
    assert torch.allclose(space.inverse(space(rgb)), rgb, atol=3e-6)


def test_every_corner_and_edge_of_the_cube_goes_there_and_back() -> None:
    steps = torch.linspace(0, 1, 18)
    rgb = torch.cartesian_prod(steps, steps, steps).T[None, :, :, None]
    space = HVI()
    assert torch.allclose(space.inverse(space(rgb)), rgb, atol=3e-6)


@given(
    st.lists(
        st.tuples(st.floats(-math.pi, math.pi), st.floats(0.01, 1), st.floats(0.01, 1)), min_size=1
    ),
    collapses,
)
def test_back_and_there_is_the_same_place(
    rows: list[tuple[float, float, float]], collapse: float
) -> None:
    space = HVI(collapse)
    angle, saturation, intensity = as_batch(rows).unbind(1)
    reach = space.radius(intensity) * saturation
    hvi = torch.stack((reach * angle.cos(), reach * angle.sin(), intensity), 1)
    assert torch.allclose(space(space.inverse(hvi)), hvi, atol=2e-5)


@given(st.lists(st.tuples(*3 * (st.floats(-9, 9, width=32),)), min_size=1), collapses)
def test_what_a_network_may_put_out_is_always_a_picture(
    rows: list[tuple[float, float, float]], collapse: float
) -> None:
    rgb = HVI(collapse).inverse(as_batch(rows))
    assert bool(((rgb >= 0) & (rgb <= 1)).all())


def test_the_two_ends_of_the_hue_axis_are_one_place() -> None:
    space = HVI()
    rather_pink = space(as_batch([(0.8, 0.1, 0.101)]))
    rather_orange = space(as_batch([(0.8, 0.101, 0.1)]))
    assert (rather_pink - rather_orange).abs().max() < 0.003


def test_near_black_colours_come_together_the_more_the_higher_the_power() -> None:
    red_and_blue = as_batch([(0.02, 0.0, 0.0), (0.0, 0.0, 0.02)])

    def apart(collapse: float) -> float:
        places = HVI(collapse)(red_and_blue).detach()[0, :2, :, 0]
        return float((places[:, 0] - places[:, 1]).norm())

    assert apart(0.01) > apart(0.2) > apart(1.0) > 0
    assert apart(1.0) < 0.1


def test_grey_has_no_hue() -> None:
    hvi = HVI()(as_batch([(value / 7, value / 7, value / 7) for value in range(8)]))
    assert not hvi[:, :2].any()


@pytest.mark.parametrize("colour", [(0.0, 0.0, 0.0), (0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (1, 1, 1)])
def test_gradients_are_finite_in_black_grey_and_at_the_rim(
    colour: tuple[float, float, float],
) -> None:
    space = HVI()
    hvi = space(as_batch([colour])).detach().requires_grad_()
    space.inverse(hvi).sum().backward()
    assert hvi.grad is not None and bool(hvi.grad.isfinite().all())
    assert space.log_collapse.grad is not None and bool(space.log_collapse.grad.isfinite())


def test_the_collapse_is_learned() -> None:
    wanted, space = HVI(0.6), HVI(0.2)
    rgb = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(space.parameters(), lr=0.05)
    for _ in range(120):
        optimizer.zero_grad()
        (space(rgb) - wanted(rgb).detach()).square().mean().backward()
        optimizer.step()
    assert float(space.collapse.detach()) == pytest.approx(0.6, abs=0.02)
