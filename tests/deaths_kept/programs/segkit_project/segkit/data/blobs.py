import torch

from ..registry import DATASETS


@DATASETS.register("blobs")
class Blobs(torch.utils.data.Dataset):
    """Round cells of some classes on a noisy ground."""

    def __init__(self, size, count, classes, seed=0):
        self.size, self.count, self.classes, self.seed = size, count, classes, seed
        axis = torch.arange(size).float()
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        gen = torch.Generator().manual_seed(self.seed * 100003 + index)
        image = torch.randn(1, self.size, self.size, generator=gen) * 0.3
        mask = torch.zeros(self.size, self.size, dtype=torch.long)
        for label in range(1, self.classes):
            cy, cx = (torch.rand(2, generator=gen) * self.size).tolist()
            inside = (self.yy - cy) ** 2 + (self.xx - cx) ** 2 < (self.size / 6) ** 2
            mask[inside] = label
            image[0, inside] += label
        return image, mask
