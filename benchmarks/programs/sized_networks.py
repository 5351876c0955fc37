"""Small forms of public architectures, by name, width and depth; each knows its own loss.

`build(name, width, depth, sample)`: pictures (3, side, side) for resnet, convnext, mobilenet, vit,
mixer and unet; tokens (length,) for transformer; vectors (length, features) for gru and lstm.
"""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

WORDS = 8192
CLASSES = 10


class Classifier(nn.Module):
    """From pictures as bytes to classes, over whatever the body gives."""

    def __init__(self, body, features):
        super().__init__()
        self.body, self.last = body, nn.Linear(features, CLASSES)

    def loss(self, x, y):
        features = self.body(x.float().div(255))
        while features.dim() > 2:
            features = features.mean(-1)
        return functional.cross_entropy(self.last(features), y)


class Sum(nn.Module):
    """What goes in, and what the body makes of it."""

    def __init__(self, *body, side=None):
        super().__init__()
        self.body, self.side = nn.Sequential(*body), side or nn.Identity()

    def forward(self, x):
        return self.body(x) + self.side(x)


class ChannelsLast(nn.Module):
    """A body over the last side, for pictures whose channels come first."""

    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return self.body(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _residual(before, after, stride):
    return nn.Sequential(
        Sum(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
            side=nn.Conv2d(before, after, 1, stride) if stride > 1 else None,
        ),
        nn.ReLU(),
    )


def resnet(width, depth, sample):
    stages = [nn.Conv2d(3, width, 3, 1, 1)]
    for at in range(3):
        before, after = width << max(at - 1, 0), width << at
        stages.append(_residual(before, after, 1 if at == 0 else 2))
        stages += [_residual(after, after, 1) for _ in range(depth - 1)]
    return Classifier(nn.Sequential(*stages), width << 2)


def _convnext_block(width):
    return Sum(
        nn.Conv2d(width, width, 7, padding=3, groups=width),
        ChannelsLast(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        ),
    )


def convnext(width, depth, sample):
    stages = [nn.Conv2d(3, width, 4, 4)]
    for at in range(2):
        stages += [_convnext_block(width << at) for _ in range(depth)]
        stages += [nn.Conv2d(width, 2 * width, 2, 2)] if at == 0 else []
    return Classifier(nn.Sequential(*stages), width << 1)


def _inverted(before, after, stride):
    wide = 4 * before
    layers = [
        nn.Conv2d(before, wide, 1, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU6(),
        nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU6(),
        nn.Conv2d(wide, after, 1, bias=False),
        nn.BatchNorm2d(after),
    ]
    return Sum(*layers) if stride == 1 and before == after else nn.Sequential(*layers)


def mobilenet(width, depth, sample):
    stages = [nn.Conv2d(3, width, 3, 2, 1)]
    for at in range(3):
        stages.append(_inverted(width << max(at - 1, 0), width << at, 1 if at == 0 else 2))
        stages += [_inverted(width << at, width << at, 1) for _ in range(depth - 1)]
    return Classifier(nn.Sequential(*stages), width << 2)


class Patches(nn.Module):
    """A picture as a sequence of patches, each with its place."""

    def __init__(self, width, side, patch):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2, width))

    def forward(self, x):
        return self.cut(x).flatten(2).transpose(1, 2) + self.places


class Turned(nn.Module):
    """Places last instead of channels."""

    def forward(self, x):
        return x.transpose(1, 2)


def vit(width, depth, sample):
    layer = nn.TransformerEncoderLayer(
        width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True, activation="gelu"
    )
    layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return Classifier(nn.Sequential(Patches(width, sample.shape[-1], 4), layers, Turned()), width)


def mixer(width, depth, sample):
    places = (sample.shape[-1] // 4) ** 2
    blocks = [Patches(width, sample.shape[-1], 4)]
    for _ in range(depth):
        over_places = [nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places)]
        blocks.append(Sum(nn.LayerNorm(width), Turned(), *over_places, Turned()))
        over_width = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
        blocks.append(Sum(nn.LayerNorm(width), *over_width))
    return Classifier(nn.Sequential(*blocks, Turned()), width)


def _twice(before, after):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Down and up again, with bridges; it learns to give back a picture without its noise."""

    def __init__(self, width, depth):
        super().__init__()
        sizes = [width << at for at in range(depth + 1)]
        self.first = _twice(3, width)
        self.down = nn.ModuleList(_twice(a, b) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(_twice(a + b, a) for a, b in pairwise(sizes))
        self.last = nn.Conv2d(width, 3, 1)

    def loss(self, x, y):
        x = x.float().div(255)
        kept = [self.first(x + 0.1 * torch.randn_like(x))]
        for layer in self.down:
            kept.append(layer(functional.max_pool2d(kept[-1], 2)))
        out = kept.pop()
        for layer in reversed(self.up):
            wide = functional.interpolate(out, scale_factor=2)
            out = layer(torch.cat([kept.pop(), wide], 1))
        return functional.mse_loss(self.last(out), x)


class Transformer(nn.Module):
    """Causal, over words."""

    def __init__(self, width, depth):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.last = nn.Linear(width, WORDS)

    def loss(self, x, y):
        x = x.long()
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1] - 1)
        hidden = self.layers(self.words(x[:, :-1]), mask=mask, is_causal=True)
        return functional.cross_entropy(self.last(hidden).flatten(0, 1), x[:, 1:].flatten())


class Recurrent(nn.Module):
    def __init__(self, kind, width, depth, features):
        super().__init__()
        self.layers = kind(features, width, depth, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * width, CLASSES)

    def loss(self, x, y):
        out, _ = self.layers(x)
        return functional.cross_entropy(self.last(out.mean(1)), y)


NETWORKS = {
    "resnet": resnet,
    "convnext": convnext,
    "mobilenet": mobilenet,
    "vit": vit,
    "mixer": mixer,
    "unet": lambda width, depth, sample: UNet(width, depth),
    "transformer": lambda width, depth, sample: Transformer(width, depth),
    "gru": lambda width, depth, sample: Recurrent(nn.GRU, width, depth, sample.shape[-1]),
    "lstm": lambda width, depth, sample: Recurrent(nn.LSTM, width, depth, sample.shape[-1]),
}


def build(name, width, depth, sample):
    return NETWORKS[name](width, depth, sample)
