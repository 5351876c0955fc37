"""rerail's own changes: what each sets, what it needs to apply, and what it would tell.

A change works through variables of the environment, through a library loaded in front of the
others, or through the agent inside the process (docs/isolate.md). Each is one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rerail.changes.profile import Profile
from rerail.errors import UsageError

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
    tells: str
    applies: Condition = _always
    choices: tuple[str, ...] = ()
    is_number: bool = False
    is_free: bool = False  # any value, as a module's name
    variables: dict[str, str] = field(default_factory=dict)  # {value} stands for the value
    needs_agent: bool = False
    is_for_listing_only: bool = False  # never tried unless asked for by name

    @property
    def text(self) -> str:
        return f"{self.name}={self.example}" if self.example else self.name

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


def _thread_variables(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "{value}")


OWN_CHANGES: dict[str, OwnChange] = {
    own.name: own
    for own in (
        OwnChange(
            "dataloader-workers",
            "0",
            "whether the loader's worker processes are part of it",
            _changes_loader_workers,
            is_number=True,
            needs_agent=True,
        ),
        OwnChange(
            "start-method",
            "spawn",
            "whether what a forked child inherits (locks, threads) is part of it",
            _needs_loader_workers,
            choices=("fork", "spawn", "forkserver"),
            needs_agent=True,
        ),
        OwnChange(
            "sharing-strategy",
            "file_system",
            "whether descriptors of shared tensors are part of it",
            _needs_loader_workers,
            choices=("file_system", "file_descriptor"),
            needs_agent=True,
        ),
        OwnChange(
            "pin-memory",
            "off",
            "whether pinned memory and its thread are part of it",
            _needs_pinned_memory,
            choices=("off",),
            needs_agent=True,
        ),
        OwnChange(
            "torch-threads",
            "1",
            "whether torch's own threads are part of it",
            _needs_torch,
            is_number=True,
            needs_agent=True,
        ),
        OwnChange(
            "blas-threads",
            "1",
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
            "whether OpenMP's threads are part of it",
            _needs_openmp,
            is_number=True,
            variables=_thread_variables("OMP_NUM_THREADS"),
        ),
        OwnChange(
            "one-openmp-runtime",
            "",
            "whether two OpenMP runtimes in one process are the cause",
            _needs_two_runtimes,
        ),
        OwnChange(
            "without-module",
            "faiss",
            "whether this module is part of it, where the program can do without",
            is_free=True,
            needs_agent=True,
            is_for_listing_only=True,
        ),
        OwnChange(
            "npz-rows",
            "1000",
            "whether the amount of data is part of it",
            _needs_npz,
            is_number=True,
            needs_agent=True,
            is_for_listing_only=True,
        ),
        OwnChange(
            "device",
            "cpu",
            "whether the GPU is part of it",
            _needs_gpu,
            choices=("cpu",),
            variables={"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        ),
        OwnChange(
            "deterministic",
            "",
            "whether an operation without a fixed order is part of it",
            _needs_torch,
            variables={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
            needs_agent=True,
            is_for_listing_only=True,
        ),
        OwnChange(
            "malloc-check",
            "",
            "where the heap is damaged: it aborts nearer to the culprit",
            variables={
                "MALLOC_CHECK_": "3",
                "MALLOC_PERTURB_": "165",
                "GLIBC_TUNABLES": "glibc.malloc.check=3",
            },
            is_for_listing_only=True,
        ),
        OwnChange(
            "pythonmalloc-debug",
            "",
            "whether an extension misuses Python's memory",
            variables={"PYTHONMALLOC": "debug"},
            is_for_listing_only=True,
        ),
    )
}
