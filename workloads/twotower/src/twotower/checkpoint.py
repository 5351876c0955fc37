"""Checkpoints that are either whole or not there.

Written beside their final name, brought to disk, renamed; the last few are kept. Loading never
unpickles code (`weights_only`). What a checkpoint holds is decided in `twotower.train`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

from twotower.errors import TwotowerError

_NAME = re.compile(r"step-(\d{8})\.pt")


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:08d}.pt"
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    _sync_folder(folder)  # without it a power cut may take back the rename
    for old in list_checkpoints(folder)[:-keep]:
        old.unlink()
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(path for path in folder.glob("step-*.pt") if _NAME.fullmatch(path.name))


def newest_checkpoint(run: Path) -> Path:
    """Of a run's folder, or the file itself."""
    if run.is_file():
        return run
    found = list_checkpoints(run / "checkpoints")
    if not found:
        raise TwotowerError(f"{run} holds no checkpoint (checkpoints/step-*.pt)")
    return found[-1]


def load_checkpoint(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise TwotowerError(
            f"{path} cannot be read as a checkpoint: {str(error).splitlines()[0]}\n"
            "Move it away; --resume then takes the one before it."
        ) from None
    return state


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
