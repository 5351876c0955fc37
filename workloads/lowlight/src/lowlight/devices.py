"""Where to compute: the devices that this torch has here."""

from __future__ import annotations

import torch

from lowlight.errors import LowlightError


def pick_device(name: str) -> torch.device:
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    usable = [device for device, is_there in there.items() if is_there]
    if name != "auto" and name not in usable:
        raise LowlightError(f"--device {name}: this torch has {', '.join(usable)} here")
    return torch.device(usable[-1] if name == "auto" else name)
