"""What is made small: the distance of the output from the target, in RGB and in HVI.

In each space: absolute difference + `d_weight` · (1 - structural similarity) + difference of edges;
then, for the faces of the batch, `face_weight` · (1 - cosine of the embeddings). Goes out: the sum
to differentiate and each term as a number, so that a run's record shows what moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lowlight.ssim import ssim

Embed = Callable[[Tensor], Tensor]  # (B, 3, H, W) to unit vectors (B, D)


@dataclass(frozen=True)
class Weights:
    d_weight: float = 1.0
    edge_weight: float = 0.5
    hvi_weight: float = 0.5
    face_weight: float = 0.0


def enhancement_loss(
    rgb: Tensor,
    hvi: Tensor,
    target_rgb: Tensor,
    target_hvi: Tensor,
    weights: Weights,
    embed: Embed | None = None,
    faces: int = 0,
) -> tuple[Tensor, dict[str, float]]:
    """All (B, 3, H, W); the first `faces` of the batch are faces."""
    loss_rgb = _distance(rgb, target_rgb, weights)
    loss_hvi = _distance(hvi, target_hvi, weights)
    loss = loss_rgb + weights.hvi_weight * loss_hvi
    terms = {"rgb": float(loss_rgb.detach()), "hvi": float(loss_hvi.detach())}
    if weights.face_weight and embed is not None and faces:
        loss_face = identity_distance(embed, rgb[:faces], target_rgb[:faces]).mean()
        loss = loss + weights.face_weight * loss_face
        terms["face"] = float(loss_face.detach())
    return loss, terms


def identity_distance(embed: Embed, rgb: Tensor, target_rgb: Tensor) -> Tensor:
    """1 - cosine, per face; the target's embedding is data and gets no gradient."""
    with torch.no_grad():
        wanted_BD = embed(target_rgb)
    return 1 - (embed(rgb) * wanted_BD).sum(1)


def _distance(x: Tensor, y: Tensor, weights: Weights) -> Tensor:
    loss = F.l1_loss(x, y)
    loss = loss + weights.d_weight * (1 - ssim(x, y))
    edges = F.l1_loss(x.diff(dim=-1), y.diff(dim=-1)) + F.l1_loss(x.diff(dim=-2), y.diff(dim=-2))
    return loss + weights.edge_weight * edges
