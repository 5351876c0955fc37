"""The HVI colour space, there and back.

Comes in: RGB from 0 to 1, or HVI. Goes out: the other. Intensity I is the largest channel. Hue is
an angle and saturation a distance on a plane (H, V), so that red, which sits at both ends of a hue
axis, is one place. The plane's radius shrinks with I by a learnable power: near black, where hue
is mostly sensor noise, all colours come close together. Promises: `inverse(forward(x))` is x, to
rounding, for every x from 0 to 1; gradients are finite everywhere, grey and black included.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# The radius at black is this to the power of the collapse. Zero would divide by zero on the way
# back, and far smaller ones make gradients near black explode.
_BLACK = 1e-4
_GREY = 1e-30  # squared length on the plane below which there is no hue


class HVI(nn.Module):
    """`collapse`: 0 keeps every hue at full width down to black, 1 shrinks it about linearly."""

    def __init__(self, collapse: float = 0.2) -> None:
        super().__init__()
        # Its logarithm is what is learned: a negative power would turn the plane inside out.
        self.log_collapse = nn.Parameter(torch.tensor(math.log(collapse)))

    @property
    def collapse(self) -> Tensor:
        return self.log_collapse.exp()

    def radius(self, i_BHW: Tensor) -> Tensor:
        return (torch.sin(i_BHW * (math.pi / 2)) + _BLACK) ** self.collapse

    def forward(self, rgb_B3HW: Tensor) -> Tensor:
        r, g, b = rgb_B3HW.unbind(1)
        i = rgb_B3HW.amax(1)
        spread = i - rgb_B3HW.amin(1)
        divisor = torch.where(spread > 0, spread, 1)
        sextant = torch.where(
            i == r,
            (g - b) / divisor,
            torch.where(i == g, 2 + (b - r) / divisor, 4 + (r - g) / divisor),
        )
        angle = sextant * (math.pi / 3)
        distance = self.radius(i) * spread / torch.where(i > 0, i, 1)
        return torch.stack((distance * angle.cos(), distance * angle.sin(), i), 1)

    def inverse(self, hvi_B3HW: Tensor) -> Tensor:
        """What lies outside the space is brought to its nearest intensity and saturation."""
        h, v, i = hvi_B3HW.unbind(1)
        i = i.clamp(0, 1)
        squared = h * h + v * v
        has_hue = squared > _GREY
        distance = torch.where(has_hue, squared, 1).sqrt()
        saturation = torch.where(has_hue, distance / self.radius(i), 0).clamp(0, 1)
        sextant = torch.atan2(v, torch.where(has_hue, h, 1)) * (3 / math.pi)
        channels = []
        for offset in (5, 3, 1):  # red, green, blue fall away from their own third of the circle
            place = torch.remainder(sextant + offset, 6)
            fall = torch.minimum(place, 4 - place).clamp(0, 1)
            channels.append(i - i * saturation * fall)
        return torch.stack(channels, 1)
