"""What a process is in the tree, from what can be seen of it from outside.

In: its command line, its name, its parent's role, the variables that launchers set. Out: one of the
roles of `records.ProcessRecord`; of a rank its number, of how many, and on which node. Pure. What
cannot be told is `child`, or left open: never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rerail.platform.command_line import is_python, launcher_of, program_name
from rerail.platform.wrapper_table import (
    CONDA_TOOLS,
    LAUNCHERS,
    MPI_LAUNCHERS,
    PROJECT_TOOLS,
    SHELLS,
    WRAPPERS,
)

# They start the real program as a child and pass its ending on, as a shell script does.
_SHELLS = SHELLS | WRAPPERS.keys() | PROJECT_TOOLS.keys() | CONDA_TOOLS.keys()
_SHELLS |= {"busybox", "make", "su"}
_LAUNCHERS = LAUNCHERS | MPI_LAUNCHERS | {"ray"}
_HELPERS = ("resource_tracker", "semaphore_tracker", "forkserver")
_WORKER_NAMES = ("pt_data_worker", "pt_data_pin")

# What launchers call a rank's number and how many there are, the most telling first: torchrun,
# accelerate, deepspeed and scripts; Open MPI; MPICH and Intel MPI; Slurm. A batch script of Slurm
# has SLURM_PROCID too, and so has all that it starts: the others go before it.
_NUMBERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
# torchrun; Lightning and scripts; deepspeed; Slurm.
_NODES = ("GROUP_RANK", "NODE_RANK", "CROSS_RANK", "SLURM_NODEID")
RANK_VARIABLES = frozenset(
    [*(name for pair in _NUMBERS for name in pair), *_NODES, "LOCAL_RANK", "SLURM_NTASKS"]
)


class RankPlace(NamedTuple):
    """Where a process stands in its job; None for what nobody told."""

    rank: int | None = None
    world_size: int | None = None
    node: int | None = None


def rank_place(environ: Mapping[str, str]) -> RankPlace:
    """What a launcher told this process of itself."""

    def number(name: str) -> int | None:
        value = environ.get(name, "")
        return int(value) if value.isdecimal() and len(value) < 10 else None

    node = next((found for name in _NODES if (found := number(name)) is not None), None)
    for rank_name, size_name in _NUMBERS:
        rank = number(rank_name)
        if rank is not None:
            size = number(size_name)
            if size is None and rank_name == "SLURM_PROCID":
                size = number("SLURM_NTASKS")
            return RankPlace(rank, size if size is not None and size > rank else None, node)
    # Lightning tells its ranks this one alone: on the first machine it is the number of the rank,
    # and on another one the process itself says later which it is.
    rank = number("LOCAL_RANK") if not node else None
    size = number("WORLD_SIZE")
    if rank is None:
        return RankPlace()
    return RankPlace(rank, size if size is not None and size > rank else None, node)


def role_of(
    command: Sequence[str],
    name: str,
    *,
    is_root: bool,
    parent_role: str | None,
    parent_command: Sequence[str] = (),
    rank: int | None = None,
    parent_rank: int | None = None,
) -> str:
    """The role of a process that is alive; `daemon` is given later, to what outlives the root."""
    program = program_of(command) or name
    is_fork = bool(command) and list(command) == list(parent_command) and not is_root
    if _is_launcher(command, program):
        # A copy of itself that has not become a program yet, and may not: a probe for nvidia-smi.
        return "child" if is_fork and parent_role == "launcher" else "launcher"
    if program in _SHELLS:
        return "shell"
    text = " ".join(command)
    if any(helper in text for helper in _HELPERS) and "-c" in command:
        return "helper"
    if name.startswith(_WORKER_NAMES):
        return "loader-worker"
    if "--multiprocessing-fork" in command or "spawn_main(" in text:
        return "multiprocessing"
    if is_fork and parent_role in ("main", "rank", "multiprocessing", "loader-worker", "child"):
        return "multiprocessing"
    if rank is not None and rank != parent_rank:
        return "rank"
    if parent_role == "launcher" and rank is not None:
        return "rank"
    if is_root:
        return "main"
    if parent_role == "shell" and is_python(program):
        return "main"
    return "child"


def program_of(command: Sequence[str]) -> str:
    """The last part of the program's path, without a login shell's dash."""
    return program_name(command[0]) if command else ""


def _is_launcher(command: Sequence[str], program: str) -> bool:
    return program in _LAUNCHERS or launcher_of(command) is not None
