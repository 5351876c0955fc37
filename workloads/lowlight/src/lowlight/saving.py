"""Files that are either whole or not there, and checkpoints made of them.

Written beside their final name, brought to disk, renamed. The last few checkpoints are kept.
Loading never unpickles code (`weights_only`).
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import torch

_CHECKPOINT = re.compile(r"step-\d{8}\.pt")
_PARTIAL = ".partial"


def write_whole(path: Path, content: bytes) -> None:
    # The process's number: two processes may fill one cache.
    partial = path.with_name(f"{path.name}.{os.getpid()}{_PARTIAL}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)  # without it a power cut may take back the rename
    finally:
        os.close(handle)


def as_bytes(state: dict[str, Any]) -> bytes:
    """Equal tensors under equal names give equal bytes."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def save_checkpoint(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:08d}.pt"
    write_whole(path, as_bytes(state))
    for old in list_checkpoints(folder)[:-keep]:
        old.unlink()
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(path for path in folder.glob("step-*.pt") if _CHECKPOINT.fullmatch(path.name))


def newest_state(folder: Path) -> tuple[Path | None, dict[str, Any], list[Path]]:
    """The newest checkpoint that can be read, and the newer ones that cannot."""
    damaged: list[Path] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            return path, read_state(path), damaged
        except Exception:  # torch raises many kinds for a damaged file
            damaged.append(path)
    return None, {}, damaged


def sweep_partial(folder: Path) -> None:
    """Remove what a process that was killed while writing left behind; it was of no use."""
    for path in folder.rglob(f"*{_PARTIAL}"):
        path.unlink(missing_ok=True)
