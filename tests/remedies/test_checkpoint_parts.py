"""Checkpoints that every rank writes a part of: whole, or passed over for an older one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rerail.checkpoints.check import check_checkpoint
from rerail.checkpoints.choose import choose_checkpoint
from rerail.checkpoints.parts import ranks_in

PROGRAMS = Path(__file__).parent.parent / "programs"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """step-1 and step-2, each saved by two real ranks with torch.distributed.checkpoint."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("saved")
    port = str(free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / "job_saves_dcp.py"), str(folder)],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(2)
    ]
    assert [rank.wait(180) for rank in ranks] == [0, 0]
    return folder


@pytest.fixture
def checkpoints(saved: Path, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(saved, tmp_path / "ck")
    return tmp_path


def chosen(folder: Path, pattern: str = "ck/step-*") -> tuple[str | None, str]:
    choice = choose_checkpoint(pattern, folder)
    why = choice.skipped[0].problem if choice.skipped else None
    return (choice.chosen.path.name if choice.chosen else None), why or ""


@pytest.mark.thorough
@pytest.mark.torch
def test_a_whole_one_is_chosen(checkpoints: Path) -> None:
    assert chosen(checkpoints) == ("step-2", "")


@pytest.mark.thorough
@pytest.mark.torch
def test_a_shard_that_is_missing_makes_it_the_older_one(checkpoints: Path) -> None:
    (checkpoints / "ck/step-2/__1_0.distcp").unlink()
    name, why = chosen(checkpoints)
    assert name == "step-1"
    assert why == "__1_0.distcp, which .metadata refers to, is missing"


@pytest.mark.torch
def test_a_shard_that_is_cut_off_makes_it_the_older_one(checkpoints: Path) -> None:
    shard = checkpoints / "ck/step-2/__0_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-100])
    name, why = chosen(checkpoints)
    assert name == "step-1"
    assert why.startswith("__0_0.distcp: ")


@pytest.mark.torch
def test_a_shard_cut_off_between_two_tensors_is_seen_by_its_length(checkpoints: Path) -> None:
    """It holds together by itself: archives one behind another, and the last are not there."""
    shard = checkpoints / "ck/step-2/__0_0.distcp"
    whole = shard.read_bytes()
    ends = [at + 22 for at in range(len(whole)) if whole.startswith(b"PK\x05\x06", at)]
    shard.write_bytes(whole[: ends[0]])
    name, why = chosen(checkpoints)
    assert name == "step-1"
    assert why == f"__0_0.distcp has {ends[0]} bytes, and .metadata says {len(whole)}"


@pytest.mark.torch
def test_without_metadata_the_save_did_not_end(checkpoints: Path) -> None:
    (checkpoints / "ck/step-2/.metadata").unlink()
    assert chosen(checkpoints)[0] == "step-1"


def files(folder: Path, *names: str, at: float = 1.7e9, **contents: Any) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("weights", "0123456789" * 20)
        os.utime(path, (at, at))


def test_names_that_say_how_many(tmp_path: Path) -> None:
    files(tmp_path / "a", *(f"model_world_size_4_rank_{rank}.pt" for rank in range(4)))
    assert check_checkpoint(tmp_path / "a").problem is None
    files(tmp_path / "b", *(f"model_world_size_4_rank_{rank}.pt" for rank in range(3)))
    assert check_checkpoint(tmp_path / "b").problem == (
        "the part of rank 3 of 4 is missing (model_world_size_4_rank_*.pt)"
    )


def test_a_gap_is_a_missing_part(tmp_path: Path) -> None:
    files(tmp_path / "a", "optim-rank0.pt", "optim-rank2.pt", "optim-rank3.pt")
    assert check_checkpoint(tmp_path / "a").problem == (
        "the part of rank 1 of 4 is missing (optim-rank*.pt)"
    )


def test_the_rank_of_an_adapter_is_not_a_rank(tmp_path: Path) -> None:
    files(tmp_path / "a", "lora_rank_8.pt", "lora_rank_16.pt", "head.pt")
    assert check_checkpoint(tmp_path / "a").problem is None


def test_the_last_ranks_are_missed_by_comparing_with_the_one_before(tmp_path: Path) -> None:
    files(tmp_path / "ck/step-1", *(f"rank{rank}.pt" for rank in range(4)), at=1.7e9)
    files(tmp_path / "ck/step-2", *(f"rank{rank}.pt" for rank in range(3)), at=1.7e9 + 60)
    name, why = chosen(tmp_path)
    assert (name, why) == ("step-1", "it has parts of 3 ranks, and ck/step-1 of 4")
    files(tmp_path / "ck/step-3", *(f"rank{rank}.pt" for rank in range(3)), at=1.7e9 + 120)
    assert chosen(tmp_path)[0] == "step-3", "a job that has become smaller goes on"


@pytest.mark.torch
@pytest.mark.parametrize("lost", ["zero_pp_rank_1_mp_rank_00_optim_states.pt", None])
def test_deepspeed_says_how_many_ranks_wrote(tmp_path: Path, lost: str | None) -> None:
    """In its layout, written by torch.save: DeepSpeed itself is not installed here."""
    torch = pytest.importorskip("torch")
    folder = tmp_path / "global_step10"
    folder.mkdir()
    states = {"module": {"w": torch.zeros(4)}, "dp_world_size": 2, "mp_world_size": 1}
    torch.save(states, folder / "mp_rank_00_model_states.pt")
    for rank in range(2):
        shard = {"optimizer_state_dict": {"state": torch.zeros(8)}, "ds_version": "0.16"}
        torch.save(shard, folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    if lost:
        (folder / lost).unlink()
    problem = check_checkpoint(folder).problem
    expected = "of 2 ranks zero_pp_rank_1_…_optim_states.pt is missing"
    assert problem == (expected if lost else None)


def test_a_large_rank_is_not_counted_up_to() -> None:
    """A folder with 300 such names took 20 seconds."""
    tracemalloc.start()
    try:
        assert ranks_in([Path("x_rank_999999.bin")]) == 0
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert ranks_in([Path(f"x_rank_{rank}.bin") for rank in (1, 2, 3)]) == 3
