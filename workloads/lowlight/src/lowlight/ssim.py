"""Structural similarity, differentiable: the usual Gaussian windows of 11 with sigma 1.5.

Comes in: two batches of planes. Goes out: one number, 1 for equal ones. The blur is two products
with a banded matrix: on a CPU far faster than a depthwise convolution, forwards and backwards.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

_WINDOW, _SIGMA = 11, 1.5
_K1, _K2 = 0.01, 0.03


def ssim(a_BCHW: Tensor, b_BCHW: Tensor, data_range: float = 1.0) -> Tensor:
    """Mean over all places where the whole window lies inside."""
    stacked = torch.stack((a_BCHW, b_BCHW, a_BCHW * a_BCHW, b_BCHW * b_BCHW, a_BCHW * b_BCHW))
    mean_a, mean_b, square_a, square_b, product = _blur(stacked).unbind(0)
    c1, c2 = (_K1 * data_range) ** 2, (_K2 * data_range) ** 2
    both = mean_a * mean_b
    squares = mean_a * mean_a + mean_b * mean_b
    luminance = (2 * both + c1) / (squares + c1)
    structure = (2 * (product - both) + c2) / (square_a + square_b - squares + c2)
    return (luminance * structure).mean()


def _blur(x: Tensor) -> Tensor:
    down, across = _band(x.shape[-2], x.device), _band(x.shape[-1], x.device)
    return down @ x @ across.T


@lru_cache(maxsize=8)
def _band(size: int, device: torch.device) -> Tensor:
    offsets = torch.arange(_WINDOW, dtype=torch.float64) - _WINDOW // 2
    weights = torch.exp(-(offsets**2) / (2 * _SIGMA**2))
    weights /= weights.sum()
    rows = size - _WINDOW + 1
    band = torch.zeros(rows, size, dtype=torch.float64)
    for row in range(rows):
        band[row, row : row + _WINDOW] = weights
    return band.to(device, torch.float32)
