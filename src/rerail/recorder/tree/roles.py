"""What a process is in the tree, from what can be seen of it from outside.

In: its command line, its name, its parent's role, the variables that launchers set. Out: one of the
roles of `records.ProcessRecord`. Pure. What cannot be told is `child`, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK")
_LAUNCHERS = LAUNCHERS | MPI_LAUNCHERS | {"ray"}
_HELPERS = ("resource_tracker", "semaphore_tracker", "forkserver")
_WORKER_NAMES = ("pt_data_worker", "pt_data_pin")


def rank_of(environ: Mapping[str, str]) -> int | None:
    """The rank that a launcher gave this process."""
    for name in RANK_VARIABLES:
        value = environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return None


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
    if _is_launcher(command, program):
        return "launcher"
    if program in _SHELLS:
        return "shell"
    text = " ".join(command)
    if any(helper in text for helper in _HELPERS) and "-c" in command:
        return "helper"
    if name.startswith(_WORKER_NAMES):
        return "loader-worker"
    is_fork = bool(command) and list(command) == list(parent_command) and not is_root
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
