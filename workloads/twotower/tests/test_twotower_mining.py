"""Every miner finds the same; what counts as a negative is decided for all of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twotower.archive import ArchiveWriter, map_archive
from twotower.dataset import Split
from twotower.mining import choose_negatives, open_miner
from twotower.mining.exact import ExactMiner, load_filter


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, np.ndarray]]:
    path = tmp_path_factory.mktemp("bank") / "bank.npz"
    vectors = np.random.default_rng(0).standard_normal((3000, 96)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with ArchiveWriter(path) as writer:
        writer.write("vectors", vectors)
    yield path, map_archive(path)["vectors"]


def by_definition(q: torch.Tensor, bank_MD: np.ndarray, k: int) -> torch.Tensor:
    scores = q.double() @ torch.from_numpy(np.array(bank_MD)).double().t()
    return scores.topk(k, dim=1).indices


@pytest.mark.parametrize("name", ["exact", "faiss", "faiss-process"])
def test_a_miner_finds_the_nearest_best_first(name: str, bank: tuple[Path, np.ndarray]) -> None:
    if name.startswith("faiss"):
        pytest.importorskip("faiss")
    path, bank_MD = bank
    miner = open_miner(name, path, bank_MD, "flat", 1)
    assert miner is not None
    q_QD = torch.randn(33, 96, generator=torch.Generator().manual_seed(1))
    try:
        for k in (1, 24):
            assert torch.equal(miner.search(q_QD, k), by_definition(q_QD, bank_MD, k))
    finally:
        miner.close()


@pytest.mark.parametrize("index", ["ivf", "hnsw"])
def test_approximate_indexes_find_most(index: str, bank: tuple[Path, np.ndarray]) -> None:
    pytest.importorskip("faiss")
    path, bank_MD = bank
    miner = open_miner("faiss", path, bank_MD, index, 1)
    assert miner is not None
    q_QD = torch.from_numpy(np.array(bank_MD[::100]))  # queries near documents, as trained ones
    assert (miner.search(q_QD, 5)[:, 0] == torch.arange(0, 3000, 100)).float().mean() > 0.8


@given(
    rows=st.integers(1, 700),
    block=st.sampled_from([1, 7, 64, 128, 320]),
    width=st.integers(1, 70),
    k=st.integers(1, 12),
    seed=st.integers(0, 99),
    is_filtered=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_any_size_gives_the_answer_of_the_definition(
    rows: int, block: int, width: int, k: int, seed: int, is_filtered: bool
) -> None:
    if is_filtered and load_filter() is None:
        is_filtered = False
    generator = np.random.default_rng(seed)
    bank_MD = generator.standard_normal((rows, width)).astype(np.float32)
    # What int8 is bad at: one coordinate far above the rest, rows of very different lengths.
    bank_MD[:, 0] *= generator.choice([1, 40])
    bank_MD *= generator.choice([1e-3, 1, 30], (rows, 1)).astype(np.float32)
    q_QD = torch.from_numpy(generator.standard_normal((13, width)).astype(np.float32))
    k = min(k, rows)
    found = ExactMiner(bank_MD, block, is_filtered).search(q_QD, k)
    scores = q_QD.double() @ torch.from_numpy(bank_MD).double().t()
    expected = scores.topk(k, dim=1).values
    # By value: rows of width 1 come so near to each other that rounding decides their order.
    torch.testing.assert_close(scores.gather(1, found), expected, rtol=1e-5, atol=1e-6)
    assert all(len(set(row)) == k for row in found.tolist())


@pytest.mark.parametrize("is_filtered", [False, True])
def test_equal_rows_come_in_their_order_and_zeros_do_no_harm(is_filtered: bool) -> None:
    if is_filtered and load_filter() is None:
        pytest.skip("no AVX-512 VNNI or no C compiler")
    bank_MD = np.zeros((2000, 64), np.float32)
    bank_MD[[3, 700, 1500], 5] = 1
    miner = ExactMiner(bank_MD, is_filtered=is_filtered)
    q_QD = torch.zeros(2, 64)
    q_QD[0, 5] = 1
    assert miner.search(q_QD, 3)[0].tolist() == [3, 700, 1500]
    assert (miner.search(q_QD, 5) >= 0).all()


def test_an_archive_of_numpys_own_is_searched_too(tmp_path: Path) -> None:
    bank_MD = np.random.default_rng(3).standard_normal((500, 20)).astype(np.float32)
    np.savez(tmp_path / "b.npz", some_name_to_shift_it=np.zeros(1), vectors=bank_MD)
    mapped = map_archive(tmp_path / "b.npz")["vectors"]
    q_QD = torch.randn(4, 20, generator=torch.Generator().manual_seed(2))
    assert torch.equal(ExactMiner(mapped).search(q_QD, 7), by_definition(q_QD, bank_MD, 7))


def test_the_target_and_what_says_the_same_are_no_negatives() -> None:
    bank_MD = np.eye(6, dtype=np.float32)
    bank_MD[1] = [0.99, np.sqrt(1 - 0.99**2), 0, 0, 0, 0]  # the target in other words
    split = Split(np.zeros((2, 1, 6), np.float32), bank_MD[[0, 3]], np.array([0, 3]))
    found_QK = torch.tensor([[0, 1, 2, 3], [4, 3, -1, -1]])
    chosen = choose_negatives(found_QK, split, np.array([0, 1]), bank_MD, 3, 0.95)
    assert chosen.tolist() == [[2, 3, -1], [4, -1, -1]]
    own = Split(split.x_NLD, split.y_ND, split.target_N, np.array([[3], [-1]]))
    chosen = choose_negatives(found_QK, own, np.array([0, 1]), bank_MD, 3, 0.95)
    assert chosen.tolist() == [[2, -1, -1], [4, -1, -1]]


def test_the_faiss_process_never_imports_torch_and_says_why_it_ended(
    bank: tuple[Path, np.ndarray], environment: dict[str, str]
) -> None:
    code = "import sys, twotower.faiss_server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment, timeout=60).returncode == 0
    pytest.importorskip("faiss")
    path, bank_MD = bank
    miner = open_miner("faiss-process", path.with_name("gone.npz"), bank_MD, "flat", 1)
    assert miner is not None
    with pytest.raises(Exception, match="--miner exact"):
        miner.search(torch.zeros(1, 96), 1)
