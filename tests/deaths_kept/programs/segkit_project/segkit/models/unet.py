import torch
from torch import nn

from ..registry import MODELS


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
        nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
    )


@MODELS.register("tiny_unet")
class TinyUNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.down = block(1, width)
        self.inner = block(width, width * 2)
        self.bottleneck = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width * 2, width * 2, 1),
            nn.BatchNorm2d(width * 2), nn.Sigmoid(),
        )
        self.up = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.out = nn.Conv2d(width * 2, classes, 1)

    def forward(self, image):
        skip = self.down(image)
        deep = self.inner(nn.functional.max_pool2d(skip, 2))
        deep = deep * self.bottleneck(deep)
        return self.out(torch.cat([skip, self.up(deep)], dim=1))
