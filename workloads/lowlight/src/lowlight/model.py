"""The network: two branches in HVI, one for intensity, one for colour, that look at each other.

Comes in: a dark RGB picture of any size from 8 × 8. Goes out: the bright one, in RGB and in HVI.
Both branches are small U-shapes over three resolutions, from half the picture's on; at each,
channels of one branch attend to those of the other (colour noise hides where intensity is low,
edges of either help the other). Intensity is multiplied by a predicted gain and shifted; colour is
corrected by a residual.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lowlight.hvi import HVI

_COARSEST = 8  # sides are padded to a multiple of this


class Enhanced(NamedTuple):
    rgb_B3HW: Tensor
    hvi_B3HW: Tensor


class ChannelAttention(nn.Module):
    """Attention between channels, not pixels: its cost grows with the picture's area, not square.

    Queries come from one branch, keys and values from the other.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query = nn.Conv2d(channels, channels, 1)
        self.key_value = nn.Conv2d(channels, 2 * channels, 1)
        self.sharpness = nn.Parameter(torch.ones(()))
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, own_BCHW: Tensor, other_BCHW: Tensor) -> Tensor:
        query = self.query(own_BCHW).flatten(2)
        key, value = self.key_value(other_BCHW).flatten(2).chunk(2, 1)
        scores_BCC = F.normalize(query, dim=2) @ F.normalize(key, dim=2).transpose(1, 2)
        mixed = (scores_BCC * self.sharpness).softmax(2) @ value
        return own_BCHW + self.out(mixed.view_as(own_BCHW))


class Block(nn.Module):
    """Two convolutions, and a gain per channel from the whole picture: how dark it is overall."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.overall = nn.Linear(channels, channels)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        inner = self.second(F.gelu(self.first(x_BCHW)))
        gain_BC11 = torch.sigmoid(self.overall(inner.mean((2, 3))))[:, :, None, None]
        return x_BCHW + inner * gain_BC11


class Exchange(nn.Module):
    """One resolution: each branch looks at the other, then works by itself."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.to_intensity = ChannelAttention(channels)
        self.to_colour = ChannelAttention(channels)
        self.intensity, self.colour = Block(channels), Block(channels)

    def forward(self, i: Tensor, hv: Tensor) -> tuple[Tensor, Tensor]:
        i, hv = self.to_intensity(i, hv), self.to_colour(hv, i)
        return self.intensity(i), self.colour(hv)


class Branch(nn.Module):
    """The convolutions that lead in, down, up and out of one branch."""

    def __init__(self, inputs: int, outputs: int, widths: tuple[int, int, int]) -> None:
        super().__init__()
        fine, middle, coarse = widths
        # Four neighbours become channels: at half the resolution a step costs a third.
        self.enter = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(4 * inputs, fine, 3, padding=1))
        self.down = nn.ModuleList(
            (nn.Conv2d(fine, middle, 2, stride=2), nn.Conv2d(middle, coarse, 2, stride=2))
        )
        self.up = nn.ModuleList(
            (nn.ConvTranspose2d(coarse, middle, 2, 2), nn.ConvTranspose2d(middle, fine, 2, 2))
        )
        last = nn.Conv2d(fine, 4 * outputs, 3, padding=1)
        self.leave = nn.Sequential(last, nn.PixelShuffle(2))
        # An untrained network gives its input back: the first steps then brighten, not unlearn.
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]


class Enhancer(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = (width, 2 * width, 3 * width)
        self.hvi = HVI()
        self.intensity = Branch(1, 2, widths)  # a gain and a shift
        self.colour = Branch(3, 2, widths)  # a residual on the plane; hue is read beside intensity
        self.going_down = nn.ModuleList(Exchange(channels) for channels in widths)
        self.going_up = nn.ModuleList((Exchange(widths[1]), Exchange(widths[0])))

    def forward(self, dark_B3HW: Tensor) -> Enhanced:
        height, width = dark_B3HW.shape[-2:]
        padding = (0, -width % _COARSEST, 0, -height % _COARSEST)
        hvi = self.hvi(F.pad(dark_B3HW, padding, mode="replicate"))
        hv_in, i_in = hvi[:, :2], hvi[:, 2:]

        # Square root: most of a dark picture's intensities lie in the lowest fifth.
        i = self.intensity.enter((i_in + 1e-4).sqrt())
        hv = self.colour.enter(hvi)
        kept = []
        for level, exchange in enumerate(self.going_down):
            if level:
                kept.append((i, hv))
                i, hv = self.intensity.down[level - 1](i), self.colour.down[level - 1](hv)
            i, hv = exchange(i, hv)
        for level, exchange in enumerate(self.going_up):
            i_fine, hv_fine = kept.pop()
            i = self.intensity.up[level](i) + i_fine
            hv = self.colour.up[level](hv) + hv_fine
            i, hv = exchange(i, hv)

        log_gain, shift = self.intensity.leave(i).chunk(2, 1)
        bright = i_in * log_gain.clamp(-4, 4).exp() + shift
        colour = hv_in + self.colour.leave(hv)
        out = torch.cat((colour, bright), 1)[..., :height, :width]
        return Enhanced(self.hvi.inverse(out), out)


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
