"""The network takes pictures of any size, starts as the identity and gives the same each time."""

from __future__ import annotations

import pytest
import torch

from lowlight.model import Enhancer
from lowlight.saving import as_bytes


@pytest.mark.parametrize("size", [(8, 8), (16, 24), (17, 31), (64, 64)])
def test_any_size_goes_in_and_the_same_comes_out(size: tuple[int, int]) -> None:
    dark = torch.rand(2, 3, *size)
    out = Enhancer(4)(dark)
    assert out.rgb_B3HW.shape == out.hvi_B3HW.shape == dark.shape


def test_untrained_it_gives_its_input_back() -> None:
    dark = torch.rand(1, 3, 20, 20) * 0.3
    assert torch.allclose(Enhancer(4)(dark).rgb_B3HW, dark, atol=1e-5)


def test_every_parameter_is_used_once_the_last_layers_have_moved() -> None:
    torch.manual_seed(0)
    model = Enhancer(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dark = torch.rand(2, 3, 16, 16) * 0.2
    for _ in range(2):  # behind a layer of zeros nothing has a gradient in the first step
        optimizer.zero_grad()
        out = model(dark)
        ((out.rgb_B3HW - 0.7) ** 2).mean().backward()
        optimizer.step()
    idle = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ]
    assert idle == []


def test_equal_weights_are_equal_bytes() -> None:
    torch.manual_seed(3)
    first = Enhancer(4)
    second = Enhancer(4)
    second.load_state_dict(first.state_dict())
    assert as_bytes(first.state_dict()) == as_bytes(second.state_dict())
