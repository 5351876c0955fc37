"""The query tower for other programs: TorchScript with torch alone, ONNX where onnx is installed.

What was written is loaded again and compared with the original on batches of several shapes; a
file that does not agree is not left behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from twotower.errors import TwotowerError
from twotower.model import QueryTower
from twotower.search import open_tower

_TOLERANCE = 1e-4  # of a coordinate of a vector of length 1: rounding in another order of sums
_SHAPES = ((1, 16), (3, 16), (2, 5))  # batch and length are free in what is written


def export(run: Path, out: Path) -> float:
    """Writes `out` (.onnx, or TorchScript as .pt or .ts); the largest difference met."""
    model, _ = open_tower(run)
    dimension = model.project.out_features
    if out.suffix == ".onnx":
        again = _write_onnx(model, out, dimension)
    elif out.suffix in (".pt", ".ts"):
        again = _write_torchscript(model, out)
    else:
        raise TwotowerError(f"{out}: name it .onnx, or .pt for TorchScript")
    difference = 0.0
    generator = torch.Generator().manual_seed(0)
    for batch, length in _SHAPES:
        x_BTD = torch.randn(batch, length, dimension, generator=generator)
        with torch.no_grad():
            difference = max(difference, float((again(x_BTD) - model(x_BTD)).abs().max()))
    if not difference <= _TOLERANCE:
        out.unlink()
        raise TwotowerError(
            f"{out} differs from the original by {difference:.1e} (more than {_TOLERANCE}); removed"
        )
    return difference


def _write_torchscript(tower: QueryTower, out: Path) -> Callable[[Tensor], Tensor]:
    example_BTD = torch.randn(2, 16, tower.project.out_features)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing announces its deprecation at every call
        script = torch.jit.freeze(torch.jit.trace(tower, example_BTD))
        script.save(str(out))
        loaded: Callable[[Tensor], Tensor] = torch.jit.load(str(out))
    return loaded


def _write_onnx(tower: QueryTower, out: Path, dimension: int) -> Callable[[Tensor], Tensor]:
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        raise TwotowerError(
            f"ONNX export needs {error.name}: pip install onnx onnxruntime\n"
            f"TorchScript needs nothing: twotower export RUN {out.with_suffix('.pt').name}"
        ) from None
    with warnings.catch_warnings(), torch.no_grad():  # with gradients it would take its own GRU
        warnings.simplefilter("ignore")
        torch.onnx.export(
            tower,
            (torch.randn(2, 16, dimension),),
            str(out),
            input_names=["x"],
            output_names=["q"],
            dynamic_axes={"x": {0: "batch", 1: "length"}, "q": {0: "batch"}},
            dynamo=False,  # the other exporter needs onnxscript as well
        )
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    return lambda x_BTD: torch.from_numpy(np.asarray(session.run(None, {"x": x_BTD.numpy()})[0]))
