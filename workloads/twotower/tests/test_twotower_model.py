"""The towers: the incident's size, and a GRU that equals torch's own."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from twotower.gru import BidirectionalGRU
from twotower.model import QueryTower, parameter_count


def test_the_incidents_model_has_its_number_of_parameters() -> None:
    assert parameter_count(QueryTower()) == 4_725_504


@pytest.mark.parametrize("encoder", ["gru", "lstm", "mean"])
def test_queries_have_length_one_and_gradients_reach_every_parameter(encoder: str) -> None:
    torch.manual_seed(0)
    tower = QueryTower(encoder, dimension=24, hidden=16)
    q_BD = tower(torch.randn(5, 7, 24))
    torch.testing.assert_close(q_BD.norm(dim=1), torch.ones(5))
    q_BD[:, 0].sum().backward()
    for name, parameter in tower.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(("B", "T"), [(1, 1), (3, 2), (8, 11)])
def test_the_written_out_gru_equals_torchs_own(B: int, T: int) -> None:
    torch.manual_seed(B)
    ours = BidirectionalGRU(10, 6).double()
    theirs = nn.GRU(10, 6, batch_first=True, bidirectional=True).double()
    theirs.load_state_dict(ours.state_dict())
    for _ in range(2):  # the second pass meets the buffers of the first
        x_BTD, weight_BH = torch.randn(B, T, 10).double(), torch.randn(B, 12).double()
        out, expected = ours.final_states(x_BTD), torch.cat(tuple(theirs(x_BTD)[1]), dim=-1)
        torch.testing.assert_close(out, expected)
        ours.zero_grad()
        theirs.zero_grad()
        (out * weight_BH).sum().backward()
        (expected * weight_BH).sum().backward()
        for name, parameter in theirs.named_parameters():
            torch.testing.assert_close(getattr(ours, name).grad, parameter.grad)


def test_two_passes_before_one_backward_do_not_share_buffers() -> None:
    torch.manual_seed(1)
    gru = BidirectionalGRU(5, 4)
    first_x, second_x = torch.randn(2, 3, 5), torch.randn(2, 3, 5)

    def gradient(passes: list[torch.Tensor]) -> torch.Tensor:
        gru.zero_grad()
        torch.stack([gru.final_states(x).pow(2).sum() for x in passes]).sum().backward()
        assert gru.weight_hh_l0.grad is not None
        return gru.weight_hh_l0.grad.clone()

    apart = gradient([first_x]) + gradient([second_x])
    torch.testing.assert_close(gradient([first_x, second_x]), apart)


def test_without_gradients_and_in_copies_it_is_the_same_layer() -> None:
    gru = BidirectionalGRU(5, 4)
    x = torch.randn(2, 3, 5)
    with torch.no_grad():
        plain = gru.final_states(x)
    torch.testing.assert_close(gru.final_states(x).detach(), plain)
    torch.testing.assert_close(copy.deepcopy(gru).final_states(x).detach(), plain)


@pytest.mark.parametrize(("encoder", "hidden"), [("gru", 24), ("gru", 64), ("mean", 1)])
def test_before_training_a_query_is_near_the_mean_of_its_sequence(
    encoder: str, hidden: int
) -> None:
    torch.manual_seed(0)
    tower = QueryTower(encoder, dimension=32, hidden=hidden)
    tower.start_as_average()
    topic_B1D = torch.nn.functional.normalize(torch.randn(20, 1, 32), dim=-1)
    x_BTD = torch.nn.functional.normalize(topic_B1D + 0.1 * torch.randn(20, 9, 32), dim=-1)
    near_BB = tower(x_BTD) @ topic_B1D[:, 0].t()
    assert (near_BB.argmax(1) == torch.arange(20)).all()
    assert near_BB.diagonal().min() > 0.7
