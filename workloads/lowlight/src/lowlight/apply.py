"""A finished run at work: its weights.pt, on the held-out pairs or on a user's picture."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lowlight.config import read_config
from lowlight.errors import LowlightError
from lowlight.evaluate import Means, as_picture, enhance, evaluate
from lowlight.face_encoder import open_face_encoder
from lowlight.model import Enhancer
from lowlight.pairs import HELD_OUT_PEOPLE, held_out_pairs
from lowlight.pictures import open_pictures, read_picture
from lowlight.saving import read_state, write_whole

_CPU = torch.device("cpu")


def open_run(run: Path) -> Enhancer:
    path = run / "weights.pt"
    if not path.exists():
        raise LowlightError(
            f"{run} holds no weights.pt: it is not a finished run.\n"
            f"Finish it: lowlight train --out {run} --resume"
        )
    try:
        state = read_state(path)
        model = Enhancer(state.pop("width"))
        model.load_state_dict(state)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise LowlightError(
            f"{path} cannot be read as weights: {str(error).splitlines()[0]}"
        ) from None
    return model


def evaluate_run(run: Path) -> dict[str, dict[str, Means]]:
    """As at the end of its training; the same numbers with the same number of threads."""
    config, model = read_config(run), open_run(run)
    torch.set_num_threads(config.cpu_threads)
    pictures = open_pictures(config.pictures, config.crop)
    people = HELD_OUT_PEOPLE if config.faces else 0
    encoder = open_face_encoder(config.cache_folder) if config.faces else None
    return evaluate(model, held_out_pairs(pictures.held_out, people, config.crop), _CPU, encoder)


def enhance_file(run: Path, source: Path, target: Path) -> None:
    model = open_run(run)
    if target.exists():
        raise LowlightError(f"{target} is there already and stays as it is; name another")
    try:
        dark = read_picture(source, longest=None).astype(np.float32) / np.float32(255)
    except Exception as error:  # Pillow raises many kinds for a damaged file
        raise LowlightError(f"{source} cannot be read as a picture: {error}") from None
    if min(dark.shape[:2]) < 8:
        raise LowlightError(f"{source}: {dark.shape[1]} x {dark.shape[0]} pixels, 8 are needed")
    buffer = io.BytesIO()
    suffix = Image.registered_extensions().get(target.suffix.lower())
    if suffix is None:
        raise LowlightError(f"{target}: not a kind of picture; end it in .png or .jpg")
    Image.fromarray(as_picture(enhance(model, dark, _CPU))).save(buffer, suffix)
    try:
        write_whole(target, buffer.getvalue())
    except OSError as error:
        raise LowlightError(f"{target}: {error.strerror}") from None
