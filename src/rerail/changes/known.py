"""rerail's own changes: what a person types, what it sets, when it applies, and what it would tell.

A change works through variables of the environment, through a library loaded in front of the
others, or through the agent inside the process (docs/isolate.md). Each is one entry here; one that
is made inside names the functions of agent/stub/rerail_changes.py that make it, and a test holds
the two to each other. Two values of one change exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rerail.changes.profile import Profile
from rerail.errors import UsageError

_MALLOC_DEBUG = "libc_malloc_debug.so.0"
# Variables that hold a list: ours goes behind what the environment has already.
JOINED_BY = {"GLIBC_TUNABLES": ":"}

Condition = Callable[[Profile, str], str | None]  # why it does not apply, or None


def _always(profile: Profile, value: str) -> str | None:
    return None


def _needs_loader_workers(profile: Profile, value: str) -> str | None:
    if not profile.has_boxes:
        return None
    if not profile.loader_workers:
        return "the recorded run has no DataLoader with workers"
    return None


def _changes_loader_workers(profile: Profile, value: str) -> str | None:
    if not profile.has_boxes:
        return None
    if not profile.loaders:
        return "the recorded run has no DataLoader"
    if all(str(workers) == value for workers in profile.loaders):
        return f"its DataLoaders have {value} workers already"
    return None


def _needs_pinned_memory(profile: Profile, value: str) -> str | None:
    if profile.has_boxes and not profile.pins_memory:
        return "no DataLoader of the recorded run pins memory"
    return None


def _needs_two_runtimes(profile: Profile, value: str) -> str | None:
    count = len(profile.openmp_paths)
    if count < 2:
        words = "none" if not count else "only one"
        return f"the recorded run has {words} of the OpenMP runtimes loaded, not two"
    if profile.openmp_to_keep() is None:
        return "no copy of the OpenMP runtimes of the recorded run is there any more"
    return None


def _needs_openmp(profile: Profile, value: str) -> str | None:
    if profile.is_recorded and not profile.openmp_paths:
        return "the recorded run has no OpenMP runtime loaded"
    return None


def _needs_npz(profile: Profile, value: str) -> str | None:
    if profile.has_boxes and not profile.loads_npz:
        return "the recorded run loads no .npz through numpy.load"
    return None


def _needs_torch(profile: Profile, value: str) -> str | None:
    if profile.is_recorded and not profile.uses_torch:
        return "the recorded run does not load torch"
    return None


def _needs_gpu(profile: Profile, value: str) -> str | None:
    return None if profile.uses_gpu else "the recorded run uses no GPU"


@dataclass(frozen=True)
class OwnChange:
    name: str
    example: str  # the value that a trial would take, "" where there is none
    family: str
    tells: str
    applies: Condition = _always
    choices: tuple[str, ...] = ()
    is_number: bool = False
    variables: dict[str, str] = field(default_factory=dict)  # {value} stands for the value
    inside: tuple[str, ...] = ()  # functions of the agent that make it in the process
    preloads: Callable[[Profile], str | None] | None = None  # the library in front of the others
    is_for_listing_only: bool = False  # never tried unless asked for by name

    @property
    def text(self) -> str:
        return f"{self.name}={self.example}" if self.example else self.name

    @property
    def needs_agent(self) -> bool:
        return bool(self.inside)

    @property
    def made_by(self) -> str:
        """In words, for the list in docs/isolate.md."""
        ways = []
        if self.inside:
            ways.append("the agent in the process")
        if self.preloads:
            ways.append("a library in front")
        if self.variables:
            ways.append(", ".join(f"`{name}`" for name in self.variables))
        return "; ".join(ways)

    def check(self, value: str | None) -> None:
        """Refuse a value that it cannot take."""
        if not self.example:
            if value is not None:
                raise UsageError(f"{self.name} takes no value", f"Write it as: {self.name}")
            return
        wanted = f"Write it as, for example: {self.text}"
        if not value:
            raise UsageError(f"{self.name} needs a value", wanted)
        if self.is_number and not value.isdigit():
            raise UsageError(f"{self.name} needs a whole number, not {value!r}", wanted)
        if self.choices and value not in self.choices:
            raise UsageError(f"{self.name} is one of {', '.join(self.choices)}", wanted)


def _malloc_debug(profile: Profile) -> str | None:
    """glibc moved its malloc checks into a library of their own in 2.34."""
    for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64"):
        path = Path(folder) / _MALLOC_DEBUG
        if path.exists():
            return str(path)
    return None


def _thread_variables(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "{value}")


OWN_CHANGES: dict[str, OwnChange] = {
    own.name: own
    for own in (
        OwnChange(
            "dataloader-workers",
            "0",
            "data loading",
            "whether the loader's worker processes are part of it",
            _changes_loader_workers,
            is_number=True,
            inside=("loader_workers",),
        ),
        OwnChange(
            "start-method",
            "spawn",
            "data loading",
            "whether what a forked child inherits (locks, threads) is part of it",
            _needs_loader_workers,
            choices=("fork", "spawn", "forkserver"),
            inside=("loader_start_method", "default_start_method"),
        ),
        OwnChange(
            "sharing-strategy",
            "file_system",
            "data loading",
            "whether descriptors of shared tensors are part of it",
            _needs_loader_workers,
            choices=("file_system", "file_descriptor"),
            inside=("sharing_strategy",),
        ),
        OwnChange(
            "pin-memory",
            "off",
            "data loading",
            "whether pinned memory and its thread are part of it",
            _needs_pinned_memory,
            choices=("off",),
            inside=("loader_pin_memory",),
        ),
        OwnChange(
            "torch-threads",
            "1",
            "threads",
            "whether torch's own threads are part of it",
            _needs_torch,
            is_number=True,
            inside=("torch_threads",),
        ),
        OwnChange(
            "blas-threads",
            "1",
            "threads",
            "whether threads of the matrix library are part of it",
            is_number=True,
            variables=_thread_variables(
                "OPENBLAS_NUM_THREADS",
                "MKL_NUM_THREADS",
                "BLIS_NUM_THREADS",
                "VECLIB_MAXIMUM_THREADS",
            ),
        ),
        OwnChange(
            "openmp-threads",
            "1",
            "threads",
            "whether OpenMP's threads are part of it",
            _needs_openmp,
            is_number=True,
            variables=_thread_variables("OMP_NUM_THREADS"),
        ),
        OwnChange(
            "one-openmp-runtime",
            "",
            "libraries",
            "whether two OpenMP runtimes in one process are the cause",
            _needs_two_runtimes,
            preloads=Profile.openmp_to_keep,
        ),
        OwnChange(
            "without-module",
            "faiss",
            "libraries",
            "whether this module is part of it, where the program can do without",
            inside=("without_module",),
            is_for_listing_only=True,
        ),
        OwnChange(
            "npz-rows",
            "1000",
            "data",
            "whether the amount of data is part of it",
            _needs_npz,
            is_number=True,
            inside=("npz_rows",),
            is_for_listing_only=True,
        ),
        OwnChange(
            "device",
            "cpu",
            "device",
            "whether the GPU is part of it",
            _needs_gpu,
            choices=("cpu",),
            variables={"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        ),
        OwnChange(
            "deterministic",
            "",
            "numerics",
            "whether an operation without a fixed order is part of it",
            _needs_torch,
            variables={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
            inside=("deterministic",),
            is_for_listing_only=True,
        ),
        OwnChange(
            "malloc-check",
            "",
            "memory checks",
            "where the heap is damaged: it aborts nearer to the culprit",
            variables={
                "MALLOC_CHECK_": "3",
                "MALLOC_PERTURB_": "165",
                "GLIBC_TUNABLES": "glibc.malloc.check=3",
            },
            preloads=_malloc_debug,
            is_for_listing_only=True,
        ),
        OwnChange(
            "pythonmalloc-debug",
            "",
            "memory checks",
            "whether an extension misuses Python's memory",
            variables={"PYTHONMALLOC": "debug"},
            is_for_listing_only=True,
        ),
    )
}
