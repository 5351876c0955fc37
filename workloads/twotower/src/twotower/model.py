"""The two towers.

Query tower: a bidirectional GRU over the sequence, the final states of both directions, a linear
map back to the width of the documents, length 1. Document tower: the identity; documents are
vectors already. With the defaults the model has 4,725,504 parameters, all in the query tower.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from twotower.gru import BidirectionalGRU

_RECENT, _OVERALL = 0.6, 0.9  # what a state keeps at each step, forwards and backwards
_INPUT_GAIN = 2.0  # the coordinates of unit vectors are small: tanh is still a straight line
_NOISE = 0.1  # of the usual random start, so that no two units stay alike


class QueryTower(nn.Module):
    """(B, T, D) sequences in, (B, D) vectors of length 1 out."""

    def __init__(self, encoder: str = "gru", dimension: int = 768, hidden: int = 512) -> None:
        super().__init__()
        self.encoder = encoder
        self.rnn: nn.Module | None = None
        if encoder == "gru":
            self.rnn = BidirectionalGRU(dimension, hidden)
        elif encoder == "lstm":
            self.rnn = nn.LSTM(dimension, hidden, batch_first=True, bidirectional=True)
        elif encoder != "mean":
            raise ValueError(f"no encoder {encoder!r}")
        self.project = nn.Linear(2 * hidden if self.rnn is not None else dimension, dimension)

    def forward(self, x_BTD: Tensor) -> Tensor:
        if isinstance(self.rnn, BidirectionalGRU):
            summary_BE = self.rnn.final_states(x_BTD)
        elif self.rnn is not None:
            summary_BE = torch.cat(tuple(self.rnn(x_BTD)[1][0]), dim=-1)
        else:
            summary_BE = x_BTD.mean(dim=1)
        return F.normalize(self.project(summary_BE), dim=-1)

    @torch.no_grad()
    def start_as_average(self) -> None:
        """Weights with which the untrained tower is a leaky average of its sequence.

        Sequence and target are in the same space, so the average is as good a first answer as the
        baselines, where random weights begin at chance. Each hidden unit takes one coordinate:
        forwards the first H of them, weighted to recent steps, backwards the last H, nearly even.
        """
        if isinstance(self.rnn, BidirectionalGRU):
            D, H = self.rnn.input_size, self.rnn.hidden_size
            for parameter in self.parameters():
                parameter.mul_(_NOISE)
            carried = min(D, H)
            for suffix, first, keep, units in (
                ("", 0, _RECENT, slice(0, carried)),
                ("_reverse", D - carried, _OVERALL, slice(H, H + carried)),
            ):
                w_ih = getattr(self.rnn, f"weight_ih_l0{suffix}")
                w_ih[2 * H : 2 * H + carried, first : first + carried] += _INPUT_GAIN * torch.eye(
                    carried
                )
                getattr(self.rnn, f"bias_ih_l0{suffix}")[H : 2 * H] = math.log(keep / (1 - keep))
                self.project.weight[first : first + carried, units] += torch.eye(carried)
        elif self.rnn is None:
            self.project.weight.mul_(_NOISE).add_(torch.eye(self.project.out_features))


def parameter_count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def encode(model: QueryTower, x_BTD: Tensor) -> Tensor:
    """Queries as the tower sees them now, without gradients."""
    with torch.no_grad():
        q_BD: Tensor = model(x_BTD)
    return q_BD
