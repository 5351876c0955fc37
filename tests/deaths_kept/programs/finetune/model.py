import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab_size: int, dim: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.pos = nn.Embedding(64, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, dim * 4, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        where = torch.arange(ids.size(1), device=ids.device)
        return self.body(self.embed(ids) + self.pos(where))


class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, dim: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(dim, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(ids)
        mask = (ids != 0).unsqueeze(-1).float()
        pooled = (hidden * mask).sum(1) / mask.sum(1)
        return self.head(pooled)
