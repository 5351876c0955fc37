"""How good: PSNR and SSIM on held-out pairs, beside the dark input and histogram equalisation.

Comes in: a network and pairs. Goes out: for each method its means over all pairs, over pictures and
over faces; for faces also how near the person stays (cosine of embeddings). Both measures are
scikit-image's, on values from 0 to 1. Promises: nothing in the results depends on a clock.
"""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import nn

from lowlight.darkening import Picture, Values
from lowlight.loss import Embed
from lowlight.pairs import Pair

Means = dict[str, float]
_LARGEST_PSNR = 100.0  # of equal pictures it is infinite, and JSON has no such number


def enhance(model: nn.Module, dark: Values, device: torch.device) -> Values:
    model.eval()
    batch = torch.from_numpy(np.ascontiguousarray(dark.transpose(2, 0, 1)))[None].to(device)
    with torch.inference_mode():
        bright = model(batch).rgb_B3HW[0].cpu().numpy()
    return np.asarray(np.clip(bright.transpose(1, 2, 0), 0, 1), np.float32)


def equalise(dark: Values) -> Values:
    """Histogram equalisation of the intensity; colours keep their ratios."""
    from skimage.exposure import equalize_hist

    intensity = dark.max(2)
    gain = equalize_hist(intensity) / np.maximum(intensity, 1 / 255)
    return np.asarray(np.clip(dark * gain[..., None], 0, 1), np.float32)


def evaluate(
    model: nn.Module, pairs: list[Pair], device: torch.device, embed: Embed | None = None
) -> dict[str, dict[str, Means]]:
    """method → all, pictures, faces → psnr, ssim, and identity where there are faces."""
    methods = {
        "model": lambda pair: enhance(model, pair.dark, device),
        "input": lambda pair: pair.dark,
        "equalised": lambda pair: equalise(pair.dark),
    }
    results = {}
    for method, apply in methods.items():
        rows = [_measure(apply(pair), pair, embed, device) for pair in pairs]
        faces = [row for row, pair in zip(rows, pairs, strict=True) if pair.is_face]
        pictures = [row for row, pair in zip(rows, pairs, strict=True) if not pair.is_face]
        groups = {"all": rows, "pictures": pictures, "faces": faces}
        results[method] = {name: _mean(group) for name, group in groups.items() if group}
    return results


def as_table(results: dict[str, dict[str, Means]]) -> str:
    lines = [f"{'':12}{'PSNR':>8}{'SSIM':>8}   {'pictures':^16} {'faces':^16} identity"]
    for method, groups in results.items():
        line = f"{method:12}{groups['all']['psnr']:8.2f}{groups['all']['ssim']:8.4f}   "
        for group in ("pictures", "faces"):
            means = groups.get(group)
            line += f"{means['psnr']:7.2f} {means['ssim']:8.4f} " if means else " " * 17
        identity = groups.get("faces", {}).get("identity")
        lines.append(line + (f"{identity:8.4f}" if identity is not None else ""))
    return "\n".join(lines)


def contact_sheet(model: nn.Module, pairs: list[Pair], device: torch.device) -> Picture:
    """Rows of input, equalised, output and target, for people to look at."""
    rows = []
    for pair in pairs:
        row = (pair.dark, equalise(pair.dark), enhance(model, pair.dark, device), pair.bright)
        cells = [Image.fromarray(as_picture(values)).resize((128, 128)) for values in row]
        rows.append(np.concatenate([np.asarray(cell) for cell in cells], 1))
    return np.concatenate(rows)


def _measure(result: Values, pair: Pair, embed: Embed | None, device: torch.device) -> Means:
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    means = {
        "psnr": _LARGEST_PSNR,
        "ssim": float(
            structural_similarity(
                pair.bright,
                result,
                channel_axis=2,
                data_range=1.0,
                gaussian_weights=True,
                sigma=1.5,
                use_sample_covariance=False,
            )
        ),
    }
    if not np.array_equal(pair.bright, result):
        psnr = float(peak_signal_noise_ratio(pair.bright, result, data_range=1.0))
        means["psnr"] = min(psnr, _LARGEST_PSNR)
    if pair.is_face and embed is not None:
        both = torch.from_numpy(np.stack((result, pair.bright)).transpose(0, 3, 1, 2).copy())
        with torch.inference_mode():
            vectors = embed(both.to(device))
        means["identity"] = float(vectors[0] @ vectors[1])
    return means


def _mean(rows: list[Means]) -> Means:
    return {name: round(float(np.mean([row[name] for row in rows])), 6) for name in rows[0]}


def as_picture(values: Values) -> Picture:
    return np.asarray(np.clip(values * 255 + 0.5, 0, 255), np.uint8)
