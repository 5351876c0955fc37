"""Who this process is in a job of several machines, from its environment and its command.

In: the environment, the words of the command, what the user said. Out: a `Membership`: which job,
the name of this node in it, and how many should come. Pure but for the name of this host. What
nobody said is None, never a guess.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rerail.errors import UsageError

# Where a job's id stands: ours, Slurm, torchrun, Kubeflow, Kubernetes' downward API, PBS, LSF, Ray.
JOB_VARIABLES = (
    "SLURM_JOB_ID",
    "TORCHELASTIC_RUN_ID",
    "PET_RDZV_ID",
    "JOB_NAME",
    "PBS_JOBID",
    "LSB_JOBID",
    "RAY_JOB_ID",
)
AUTO = "auto"
_NODE_RANKS = ("SLURM_NODEID", "PET_NODE_RANK", "NODE_RANK", "GROUP_RANK", "JOB_COMPLETION_INDEX")
_NODE_COUNTS = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "PET_NNODES", "NNODES")
_TASK_RANKS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
_LONGEST = 100
# What a scheduler tells of a job's own end, to be compared with how it ended.
_TOLD = (
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_PARTITION",
    "SLURM_RESTART_COUNT",
    "POD_NAME",
    "NODE_NAME",
)


@dataclass(frozen=True)
class Membership:
    job: str
    node: str  # the host; with the rank of the task where each task is a member of its own
    host: str
    node_rank: int | None = None
    rank: int | None = None  # of a task that is a rank itself
    expected: int | None = None  # members that the job should have
    least: int | None = None  # that an elastic launcher goes on with
    told: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def membership(
    asked_job: str,
    environ: Mapping[str, str],
    command: Sequence[str] = (),
    *,
    nnodes: int | None = None,
    node: str | None = None,
) -> Membership:
    named = node or environ.get("RERAIL_NODE") or environ.get("SLURMD_NODENAME")
    host = (named or os.uname().nodename or "host").strip()[:_LONGEST]
    least, most = elastic_nodes(command)
    rank, world = _task(environ)
    counted = nnodes or (most if most is not None else _first_number(environ, _NODE_COUNTS))
    # `srun rerail run -- python train.py`: a member for each task, not for each machine.
    is_by_task = nnodes is None and most is None and world is not None and world != counted
    name = f"{host}.{rank}" if is_by_task and rank is not None else host
    return Membership(
        job=job_id(asked_job, environ),
        node=_in_a_path(name),
        host=host,
        node_rank=_first_number(environ, _NODE_RANKS, _option(command, "node-rank")),
        rank=rank if is_by_task else None,
        expected=world if is_by_task else counted,
        least=least,
        told={name: environ[name][:_LONGEST] for name in _TOLD if environ.get(name)},
    )


def job_id(asked: str, environ: Mapping[str, str]) -> str:
    """As asked; `auto` takes what the scheduler or launcher has set."""
    if asked != AUTO:
        if not asked.strip():
            raise UsageError("--job is empty", "Give it a name, or auto: --job auto")
        return _in_a_path(asked)
    for name in JOB_VARIABLES:
        if environ.get(name):
            return _in_a_path(environ[name])
    raise UsageError(
        f"--job auto found no job: none of {', '.join(JOB_VARIABLES[:4])} is set",
        "Name it, with the same name on every node: --job my-job",
    )


def elastic_nodes(command: Sequence[str]) -> tuple[int | None, int | None]:
    """`--nnodes 3` of torchrun is (None, 3), `--nnodes 2:3` is (2, 3)."""
    text = _option(command, "nnodes")
    found = re.fullmatch(r"(?:(\d{1,6}):)?(\d{1,6})", text or "")
    if not found:
        return None, None
    return (int(found[1]) if found[1] else None), int(found[2])


def seconds_to_time_limit(told: Mapping[str, str], at_unix: float | None = None) -> float | None:
    """How long before Slurm's time limit; None where there is none."""
    try:
        end = float(told["SLURM_JOB_END_TIME"])
    except (KeyError, ValueError):
        return None
    return end - (time.time() if at_unix is None else at_unix)


def _option(command: Sequence[str], name: str) -> str | None:
    spelled = (f"--{name}", f"--{name.replace('-', '_')}")
    for at, word in enumerate(command):
        option, equals, value = word.partition("=")
        if option in spelled:
            return value if equals else next(iter(command[at + 1 : at + 2]), None)
    return None


def _task(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    for rank, world in _TASK_RANKS:
        if _is_number(environ.get(rank, "")) and _is_number(environ.get(world, "")):
            return int(environ[rank]), int(environ[world])
    return None, None


def _first_number(
    environ: Mapping[str, str], names: Sequence[str], otherwise: str | None = None
) -> int | None:
    for text in (otherwise or "", *(environ.get(name, "") for name in names)):
        if _is_number(text):
            return int(text)
    return None


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def is_path_part(name: str) -> bool:
    """Whether it is as we name nodes and jobs."""
    return name == _in_a_path(name)


def _in_a_path(name: str) -> str:
    """One part of a path, whatever was typed."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name.strip()).lstrip(".")[:_LONGEST] or "job"
