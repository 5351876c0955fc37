"""Kernels in C that use OpenMP, linked to a runtime found on the user's machine.

Two kernels, written by two people as hand-made extensions are: `gather` copies rows of the mapped
data with all threads, `topk` searches the bank. Each was linked to the runtime its author had:

    gather   LLVM's libomp, the one that Debian's libomp5 installs
    topk     Intel's libiomp5, the one that `pip install intel-openmp` installs

Either alone is fine. Both in one process are the incident's arrangement: each runtime looks for
another at its first parallel loop, and the second to come aborts the process with OMP Error #15.
With a single runtime the results are the same as with either kernel alone. To get one:

    TWOTOWER_OPENMP=/path/to/libomp.so.5   links both kernels to this runtime
    LD_PRELOAD=/path/to/libiomp5.so        puts this runtime in front of all others
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twotower.errors import TwotowerError
from twotower.native.compile import compile_kernel

_RUNTIMES = {"gather": ("llvm", "intel"), "topk": ("intel", "llvm")}  # the author's own first
_WHERE = {
    "llvm": ("lib/libomp.so*", "/usr/lib/*/libomp.so.5", "/usr/lib/llvm-*/lib/libomp.so.5"),
    "intel": (
        "lib/libiomp5.so",
        "/usr/lib/*/libiomp5.so",
        "/opt/intel/oneapi/compiler/*/lib/libiomp5.so",
    ),
}


@cache
def load_kernel(name: str) -> ctypes.CDLL:
    """The compiled kernel, in this process. Its OpenMP runtime starts at its first loop."""
    return ctypes.CDLL(str(compile_kernel(name, find_runtime(name))))


def find_runtime(name: str) -> Path:
    """The OpenMP runtime that a kernel is linked to on this machine."""
    asked = os.environ.get("TWOTOWER_OPENMP")
    if asked:
        if not Path(asked).exists():
            raise TwotowerError(f"TWOTOWER_OPENMP={asked}: no such file")
        return Path(asked).resolve()
    for kind in _RUNTIMES[name]:
        for path in _look_for(kind):
            return path
    raise TwotowerError(
        f"the native {name} kernel needs an OpenMP runtime (libomp or libiomp5), none was found.\n"
        "Install one: pip install intel-openmp, or name one in TWOTOWER_OPENMP,\n"
        "or do without: --miner exact --gather numpy"
    )


def _look_for(kind: str) -> Iterator[Path]:
    for pattern in _WHERE[kind]:
        base, relative = (
            (Path("/"), pattern[1:]) if pattern.startswith("/") else (Path(sys.prefix), pattern)
        )
        yield from sorted(base.glob(relative))
