"""Which job, which node, how many: from what schedulers and launchers set."""

from __future__ import annotations

import pytest

from rerail.errors import UsageError
from rerail.jobs.membership import elastic_nodes, job_id, membership, seconds_to_time_limit

TORCHRUN = ["torchrun", "--nnodes", "2:3", "--node_rank=1", "train.py"]


def test_a_slurm_step_with_one_launcher_per_node() -> None:
    environ = {"SLURM_JOB_ID": "4711", "SLURM_NNODES": "3", "SLURM_NODEID": "2"}
    found = membership("auto", environ, ["python", "train.py"], node="gpu-07")
    assert (found.job, found.node, found.node_rank, found.expected) == ("4711", "gpu-07", 2, 3)


def test_a_slurm_step_with_a_task_per_rank() -> None:
    environ = {"SLURM_JOB_ID": "4711", "SLURM_NNODES": "2", "SLURM_NODEID": "0"}
    environ |= {"SLURM_PROCID": "5", "SLURM_NTASKS": "16"}
    found = membership("auto", environ, node="gpu-07")
    assert (found.node, found.rank, found.expected) == ("gpu-07.5", 5, 16)


def test_torchrun_says_it_in_its_own_arguments() -> None:
    found = membership("my job/1", {}, TORCHRUN, node="b")
    assert (found.job, found.expected, found.least) == ("my-job-1", 3, 2)
    assert elastic_nodes(["torchrun", "--nnodes=4", "x.py"]) == (None, 4)
    assert elastic_nodes(["python", "x.py"]) == (None, None)


def test_what_was_typed_comes_first() -> None:
    found = membership("j", {"SLURM_NNODES": "3", "RERAIL_NODE": "n9"}, nnodes=2)
    assert (found.node, found.expected) == ("n9", 2)


def test_auto_without_a_job_says_what_to_type() -> None:
    with pytest.raises(UsageError) as error:
        job_id("auto", {})
    assert "--job my-job" in error.value.help_text
    assert job_id("auto", {"TORCHELASTIC_RUN_ID": "r1"}) == "r1"
    assert job_id("../../etc", {}) == "-..-etc"


def test_the_time_limit_of_slurm() -> None:
    assert seconds_to_time_limit({"SLURM_JOB_END_TIME": "1000"}, 940.0) == 60.0
    assert seconds_to_time_limit({}) is None
