"""The two towers.

Query tower: a bidirectional GRU over the sequence, its outputs averaged over time, a linear map
back to the width of the documents, length 1. Document tower: the identity; documents are vectors
already. With the defaults the model has 4,725,504 parameters, all in the query tower.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from twotower.gru import BidirectionalGRU


class QueryTower(nn.Module):
    """(B, T, D) sequences in, (B, D) vectors of length 1 out."""

    def __init__(self, encoder: str = "gru", dimension: int = 768, hidden: int = 512) -> None:
        super().__init__()
        self.encoder = encoder
        if encoder == "gru":
            self.rnn: nn.Module | None = BidirectionalGRU(dimension, hidden)
        elif encoder == "lstm":
            self.rnn = nn.LSTM(dimension, hidden, batch_first=True, bidirectional=True)
        elif encoder == "mean":
            self.rnn = None
        else:
            raise ValueError(f"no encoder {encoder!r}")
        self.project = nn.Linear(2 * hidden if self.rnn is not None else dimension, dimension)

    def forward(self, x_BTD: Tensor) -> Tensor:
        states_BTH = x_BTD if self.rnn is None else self.rnn(x_BTD)[0]
        return F.normalize(self.project(states_BTH.mean(dim=1)), dim=-1)


def parameter_count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def encode(model: QueryTower, x_BTD: Tensor) -> Tensor:
    """Queries as the tower sees them now, without gradients."""
    with torch.no_grad():
        q_BD: Tensor = model(x_BTD)
    return q_BD
