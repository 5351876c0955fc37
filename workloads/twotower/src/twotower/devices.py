"""Which devices there are; only these are offered."""

from __future__ import annotations

import torch

from twotower.errors import TwotowerError


def available_devices() -> list[str]:
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices.append("cuda")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def pick_device(name: str, local_rank: int = 0) -> torch.device:
    there = available_devices()
    if name == "auto":
        name = there[-1]
    if name not in there:
        raise TwotowerError(
            f"--device {name}: this torch sees only {', '.join(there)} here"
            + (" (profile or flag; try --device cpu)" if name in ("cuda", "mps") else "")
        )
    return torch.device("cuda", local_rank) if name == "cuda" else torch.device(name)
