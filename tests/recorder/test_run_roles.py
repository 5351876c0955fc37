"""What a process is, from what can be seen of it; and which limits come near."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.recorder.tree.roles import RANK_VARIABLES, RankPlace, rank_place, role_of
from rerail.recorder.vitals.limits import NearLimits
from rerail.wording import duration_in_words

PYTHON = ["python", "train.py"]


@pytest.mark.parametrize(
    ("command", "name", "settings", "role"),
    [
        (PYTHON, "python", {"is_root": True, "parent_role": None}, "main"),
        (["bash", "-c", "x"], "bash", {"is_root": True, "parent_role": None}, "shell"),
        (["-zsh"], "zsh", {"is_root": True, "parent_role": None}, "shell"),
        (PYTHON, "python", {"is_root": False, "parent_role": "shell"}, "main"),
        (["nvidia-smi"], "nvidia-smi", {"is_root": False, "parent_role": "shell"}, "child"),
        (["/b/torchrun", "t.py"], "torchrun", {"is_root": True, "parent_role": None}, "launcher"),
        (
            ["python3.11", "/venv/bin/torchrun", "t.py"],
            "python3.11",
            {"is_root": True, "parent_role": None},
            "launcher",
        ),
        (
            ["python", "-m", "torch.distributed.run", "t.py"],
            "python",
            {"is_root": True, "parent_role": None},
            "launcher",
        ),
        (
            ["python", "-u", "-m", "accelerate.commands.launch", "t.py"],
            "python",
            {"is_root": True, "parent_role": None},
            "launcher",
        ),
        (
            ["torchrun", "t.py"],
            "torchrun",
            {"is_root": False, "parent_role": "launcher", "parent_command": ["torchrun", "t.py"]},
            "child",
        ),
        (["python", "run.py"], "python", {"is_root": True, "parent_role": None}, "main"),
        (PYTHON, "python", {"is_root": False, "parent_role": "launcher", "rank": 3}, "rank"),
        (
            PYTHON,
            "pt_data_worker",
            {
                "is_root": False,
                "parent_role": "rank",
                "parent_command": PYTHON,
                "rank": 3,
                "parent_rank": 3,
            },
            "loader-worker",
        ),
        (
            PYTHON,
            "python",
            {"is_root": False, "parent_role": "main", "parent_command": PYTHON},
            "multiprocessing",
        ),
        (
            ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)"],
            "python",
            {"is_root": False, "parent_role": "main", "parent_command": PYTHON},
            "multiprocessing",
        ),
        (
            ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
            "python",
            {"is_root": False, "parent_role": "main", "parent_command": PYTHON},
            "helper",
        ),
        (["git", "log"], "git", {"is_root": False, "parent_role": "main"}, "child"),
        ([], "kworker", {"is_root": False, "parent_role": None}, "child"),
    ],
)
def test_roles(command: list[str], name: str, settings: dict[str, object], role: str) -> None:
    assert role_of(command, name, **settings) == role  # type: ignore[arg-type]


def test_a_rank_is_what_a_launcher_set() -> None:
    torchrun = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "GROUP_RANK": "1"}
    assert rank_place(torchrun) == RankPlace(2, 4, 1)
    in_a_batch_script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_NODEID": "3"}
    assert rank_place({**in_a_batch_script, "RANK": "5", "WORLD_SIZE": "8"}) == RankPlace(5, 8, 3)
    assert rank_place(in_a_batch_script) == RankPlace(0, 1, 3)
    assert rank_place({"OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "8"}) == (7, 8, None)
    assert rank_place({"PMI_RANK": "1", "PMI_SIZE": "2"}) == (1, 2, None)
    assert rank_place({"RANK": "0", "WORLD_SIZE": "2", "CROSS_RANK": "0"}) == (0, 2, 0)
    assert rank_place({"RANK": "two"}) == rank_place({}) == RankPlace()


def test_lightning_tells_its_ranks_a_number_of_the_machine_alone() -> None:
    first = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "4"}
    assert rank_place(first) == RankPlace(1, 4, 0)
    assert rank_place({**first, "NODE_RANK": "1"}) == RankPlace()  # 1 or 3: it will say so itself


@given(st.dictionaries(st.sampled_from(sorted(RANK_VARIABLES)), st.text(max_size=12)))
def test_any_variables(environ: dict[str, str]) -> None:
    place = rank_place(environ)
    assert place.rank is None or place.world_size is None or 0 <= place.rank < place.world_size


@given(st.floats(0, 1e12), st.floats(1, 1e12))
def test_a_limit_is_told_once_and_only_when_near(used: float, limit: float) -> None:
    limits = NearLimits()
    machine = {"cgroup_usage_bytes": used, "cgroup_limit_bytes": limit}
    told = limits.newly_near(machine)
    assert bool(told) == (used >= 0.9 * limit)
    assert limits.newly_near(machine) == []


def test_machine_memory_is_what_is_not_available() -> None:
    machine = {"available_bytes": 5.0, "total_bytes": 100.0}
    assert NearLimits().newly_near(machine) == [("machine memory", 95.0, 100.0)]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.31, "0.3 s"),
        (42.4, "42 s"),
        (725, "12 min 5 s"),
        (12000, "3 h 20 min"),
        (59.9, "1 min 0 s"),
        (353000, "4 d 2 h"),
        (-3, "0.0 s"),
    ],
)
def test_lengths_of_time_in_words(seconds: float, words: str) -> None:
    assert duration_in_words(seconds) == words
