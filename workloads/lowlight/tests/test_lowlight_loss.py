"""The loss: SSIM is scikit-image's, weights weigh, the target and the encoder get no gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity
from torch import Tensor

from lowlight.face_encoder import FaceEncoder
from lowlight.loss import Weights, enhancement_loss, identity_distance
from lowlight.ssim import ssim


def random_batch(seed: int, size: int = 24, batch: int = 2) -> Tensor:
    return torch.rand(batch, 3, size, size + 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.5])
def test_structural_similarity_is_that_of_scikit_image(noise: float) -> None:
    a = random_batch(1, size=40, batch=1)
    b = (a + noise * (random_batch(2, size=40, batch=1) - 0.5)).clamp(0, 1)
    reference = structural_similarity(
        *(np.asarray(x[0].permute(1, 2, 0), np.float64) for x in (a, b)),
        channel_axis=2,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        win_size=11,
    )
    assert float(ssim(a, b)) == pytest.approx(reference, abs=1e-4)


def test_a_perfect_output_costs_nothing_and_each_weight_adds_its_term() -> None:
    x, y = random_batch(3), random_batch(4)
    encoder = FaceEncoder().requires_grad_(False)
    nothing, _ = enhancement_loss(y, y, y, y, Weights(face_weight=1.0), encoder, faces=2)
    assert float(nothing) == pytest.approx(0, abs=1e-5)

    plain = Weights(d_weight=0, edge_weight=0, hvi_weight=0)
    l1, _ = enhancement_loss(x, x, y, y, plain)
    assert float(l1) == pytest.approx(float((x - y).abs().mean()))
    both, _ = enhancement_loss(x, x, y, y, Weights(1.5, 0, 0))
    assert float(both) == pytest.approx(float(l1) + 1.5 * (1 - float(ssim(x, y))), rel=1e-5)
    faced, terms = enhancement_loss(x, x, y, y, Weights(0, 0, 0, face_weight=0.3), encoder, faces=1)
    distance = float(identity_distance(encoder, x[:1], y[:1]).mean())
    assert terms["face"] == pytest.approx(distance)
    assert float(faced) == pytest.approx(float(l1) + 0.3 * distance, rel=1e-5)


def test_gradients_reach_the_output_and_neither_target_nor_encoder() -> None:
    x, y = random_batch(5).requires_grad_(), random_batch(6).requires_grad_()
    encoder = FaceEncoder().requires_grad_(False)
    identity_distance(encoder, x, y).sum().backward()
    assert x.grad is not None and bool(x.grad.abs().sum() > 0)
    assert y.grad is None
    assert all(parameter.grad is None for parameter in encoder.parameters())
