"""Ranks by definition, and the synthetic data's known structure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twotower.archive import map_archive
from twotower.dataset import Split, open_data
from twotower.evaluate import summarise, target_ranks
from twotower.synthetic import write_synthetic


@given(rows=st.integers(1, 30), bank=st.integers(30, 200), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_a_rank_is_one_more_than_the_better_ones(rows: int, bank: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    bank_MD = generator.standard_normal((bank, 8)).astype(np.float32)
    target_N = generator.choice(bank, rows, replace=False)
    split = Split(np.zeros((rows, 1, 8), np.float32), bank_MD[target_N], target_N)
    q_QD = generator.standard_normal((rows, 8)).astype(np.float32)
    order = np.argsort(-(q_QD.astype("f8") @ bank_MD.T.astype("f8")), axis=1)
    expected = [int(np.flatnonzero(order[i] == target_N[i])[0]) + 1 for i in range(rows)]
    found = target_ranks(torch.from_numpy(q_QD), split, bank_MD).tolist()
    assert np.abs(np.array(found) - expected).max() <= 1  # neighbours within rounding may swap
    assert np.mean(np.array(found) == expected) > 0.9


def test_a_query_may_not_be_asked_to_beat_its_own_context() -> None:
    bank_MD = np.eye(4, dtype=np.float32)
    split = Split(bank_MD[None, [2, 3]], bank_MD[[0]], np.array([0]), np.array([[2, 3]]))
    q_1D = torch.tensor([[0.5, 0.6, 0.7, 0.8]])
    assert target_ranks(q_1D, split, bank_MD, with_context=True).tolist() == [4]
    assert target_ranks(q_1D, split, bank_MD).tolist() == [2]


def test_recall_and_mrr() -> None:
    metrics = summarise(torch.tensor([1, 2, 11, 1001]))
    assert (metrics["recall@1"], metrics["recall@10"], metrics["recall@1000"]) == (0.25, 0.5, 0.75)
    assert metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 11 + 1 / 1001) / 4)


def test_synthetic_data_is_the_same_for_a_seed_whatever_the_size(tmp_path: Path) -> None:
    def bank(name: str, **sizes: int) -> np.ndarray:
        write_synthetic(tmp_path / name, length=3, val_rows=5, dimension=64, **sizes)
        return map_archive(tmp_path / name / "bank.npz")["vectors"]

    small, large = bank("a", rows=10, bank_rows=50), bank("b", rows=30, bank_rows=400)
    np.testing.assert_array_equal(small, large[:50])
    np.testing.assert_array_equal(small, bank("c", rows=10, bank_rows=50))
    np.testing.assert_allclose(np.linalg.norm(large, axis=1), 1, atol=1e-5)
    assert np.abs((large @ large.T)[~np.eye(400, dtype=bool)]).max() < 0.9


@pytest.mark.parametrize("val_rows", [1, 2, 17])
def test_synthetic_targets_are_rows_of_the_bank_bit_for_bit(tmp_path: Path, val_rows: int) -> None:
    pairs, bank = write_synthetic(tmp_path, 9, 3, 50, val_rows)
    assert len(open_data(pairs, bank).val.y_ND) == val_rows  # refuses any other target
