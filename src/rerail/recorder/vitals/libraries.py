"""Which native libraries a process has, and what they are by content, not by file name.

In: a pid, or a path. Out: MappedLibrary records; kind, flavour and soname of a file. A wheel's
libgomp-a34b3233.so.1, a copy under any other name and libtorch_cpu.so with MKL inside are told
by the names that they export and, where two runtimes export the same ones, by their own version
text. Promises: reads a few pages per library and remembers the answer for as long as size and
time of the file stay the same; importing or loading anything is never needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from rerail.platform.elf import ElfFile, NotElf, gnu_hash
from rerail.records import MappedLibrary

_LIBRARY_NAME = re.compile(r"\.so(\.[\w.]{1,60})?$|\.dylib$|/(lib)?python[\d.]{0,12}$|\.framework/")
_DELETED = " (deleted)"

# By exported name, first match wins. kmpc before GOMP: LLVM's and Intel's runtimes export both.
_BY_EXPORT: tuple[tuple[bytes, str, str], ...] = (
    (b"__kmpc_fork_call", "openmp", "kmp"),
    (b"GOMP_parallel", "openmp", "libgomp"),
    (b"GOMP_parallel_start", "openmp", "libgomp"),
    (b"openblas_get_config", "blas", "openblas"),
    (b"openblas_get_config64_", "blas", "openblas"),
    (b"scipy_openblas_get_config", "blas", "openblas"),
    (b"scipy_openblas_get_config64_", "blas", "openblas"),
    (b"bli_info_get_version_str", "blas", "blis"),
    (b"mkl_get_version", "blas", "mkl"),
    (b"MKL_Get_Version", "blas", "mkl"),
    (b"mkl_serv_get_version", "blas", "mkl"),
    (b"mkl_blas_dgemm", "blas", "mkl"),
    (b"ATL_buildinfo", "blas", "atlas"),
    (b"hipMalloc", "cuda", "hip"),
    (b"hsa_init", "cuda", "hsa"),
    (b"cudaMalloc", "cuda", "cudart"),
    (b"cuInit", "cuda", "cuda-driver"),
    (b"cudnnCreate", "cuda", "cudnn"),
    (b"cublasLtCreate", "cuda", "cublaslt"),
    (b"cublasCreate_v2", "cuda", "cublas"),
    (b"ncclCommInitRank", "cuda", "nccl"),
    (b"nvrtcCreateProgram", "cuda", "nvrtc"),
    (b"cufftPlan1d", "cuda", "cufft"),
    (b"cusolverDnCreate", "cuda", "cusolver"),
    (b"cusparseCreate", "cuda", "cusparse"),
    (b"curandCreateGenerator", "cuda", "curand"),
    (b"nvmlInit_v2", "cuda", "nvml"),
    (b"Py_BytesMain", "python", "cpython"),
    (b"Py_InitializeEx", "python", "cpython"),
    (b"_ZSt4cout", "cxx", "libstdc++"),
    (b"_ZNSt3__14coutE", "cxx", "libc++"),
    (b"_Unwind_RaiseException", "cxx", "libgcc"),
    (b"TBB_runtime_interface_version", "threading", "tbb"),
    (b"mallctl", "allocator", "jemalloc"),
    (b"tc_malloc", "allocator", "tcmalloc"),
    (b"mi_malloc", "allocator", "mimalloc"),
    (b"cblas_dgemm", "blas", "reference"),
)
_EXPORT_HASHES = tuple((name, gnu_hash(name)) for name, _, _ in _BY_EXPORT)

# LLVM's runtime and those that were made from it: what their binaries say of themselves.
_KMP_FLAVOURS = (
    (b"Intel(R) OMP", "libiomp5"),
    (b"LLVM OMP", "libomp"),
    (b"NVIDIA OpenMP", "libnvomp"),
)

# Only where the content cannot be read: another machine's path, Mach-O, a removed file.
_BY_NAME: tuple[tuple[str, str, str], ...] = (
    (r"libgomp", "openmp", "libgomp"),
    (r"libiomp5", "openmp", "libiomp5"),
    (r"libomp[.-]|libomp\d", "openmp", "libomp"),
    (r"openblas", "blas", "openblas"),
    (r"libmkl_|mkl_rt", "blas", "mkl"),
    (r"libblis", "blas", "blis"),
    (r"Accelerate\.framework|vecLib|libBLAS", "blas", "accelerate"),
    (r"libcudart", "cuda", "cudart"),
    (r"libcuda\.", "cuda", "cuda-driver"),
    (r"libcudnn", "cuda", "cudnn"),
    (r"libnccl", "cuda", "nccl"),
    (r"libamdhip", "cuda", "hip"),
    (r"Metal\.framework|MetalPerformanceShaders", "cuda", "metal"),
    (r"libstdc\+\+", "cxx", "libstdc++"),
    (r"libc\+\+", "cxx", "libc++"),
    (r"libpython|/python[\d.]*$", "python", "cpython"),
    (r"libtbb\.", "threading", "tbb"),
)

Description = tuple[str | None, str | None, str | None]
_described: dict[tuple[str, int, int], Description] = {}


def describe(path: str) -> Description:
    """Kind, flavour and soname of a library file; None for what it is not."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):  # a damaged record may hold a path with a NUL in it
        return (*_describe_by_name(path), None)
    known = (path, status.st_size, status.st_mtime_ns)
    if known not in _described:
        _described[known] = _describe_by_content(path)
    return _described[known]


def _describe_by_content(path: str) -> Description:
    try:
        with ElfFile(path) as elf:
            exported = elf.exports(_EXPORT_HASHES)
            soname = elf.soname
            for name, kind, flavour in _BY_EXPORT:
                if name in exported:
                    if flavour == "kmp":
                        flavour = _kmp_flavour(elf, soname or path)
                    elif flavour == "nccl" and "rccl" in (soname or path):
                        flavour = "rccl"
                    return kind, flavour, soname
            return None, None, soname
    except NotElf:
        return (*_describe_by_name(path), None)


def _kmp_flavour(elf: ElfFile, name: str) -> str:
    for text, flavour in _KMP_FLAVOURS:
        if elf.contains(text):
            return flavour
    return "libiomp5" if "iomp" in name else "libomp"


def _describe_by_name(path: str) -> tuple[str | None, str | None]:
    for pattern, kind, flavour in _BY_NAME:
        if re.search(pattern, path):
            return kind, flavour
    return None, None


def inventory(pid: int) -> list[MappedLibrary]:
    """The libraries mapped into a process, in order of address; empty if it is gone."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError:
        return []
    found = []
    for path, base in parse_maps(text.splitlines()):
        kind, flavour, soname = describe(path)
        found.append(MappedLibrary(path, kind, flavour, base, soname))
    return found


def parse_maps(lines: Iterable[str]) -> list[tuple[str, int]]:
    """Paths of mapped libraries and where each begins, from the text of /proc/PID/maps.

    A data file that is only read is not a library, whatever its name: some part of it has to be
    executable.
    """
    bases: dict[str, int] = {}
    executable: list[str] = []
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        path = fields[5].removesuffix(_DELETED)
        if path not in bases:
            if not _LIBRARY_NAME.search(path):
                continue
            try:
                bases[path] = int(fields[0].partition("-")[0], 16)
            except ValueError:
                continue  # not a line of a memory map
        if "x" in fields[1] and path not in executable:
            executable.append(path)
    return [(path, bases[path]) for path in executable]
