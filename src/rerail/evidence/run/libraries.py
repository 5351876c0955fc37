"""Which native libraries were loaded together that should not be?

In: each process's mapped libraries (last seen alive, or in its crash record). Out: one
`openmp-runtimes` observation per distinct set of two or more OpenMP runtimes (and one for a single
runtime, which rules the conflict out), `blas-libraries` and `cuda-libraries` for two or more.

LLVM's libomp and Intel's libiomp5 register under one name and abort at the second initialisation,
as does the same one loaded from two paths. Two copies of libgomp do not abort: they oversubscribe,
and hang in a child forked after the parent used one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import MappedLibrary, Observation
from rerail.wording import file_name, listed, role_in_words, sentence

_KMP_FLAVOURS = {"libomp", "libiomp5"}
_ROLE_ORDER = ("main", "rank", "multiprocessing", "child", "loader-worker")
_MAJOR = linear(r"\.so\.(\d+)")
# Of the CUDA user-space libraries, these must agree on their major version within a process.
_CUDA_RUNTIME = linear(r"^lib(cudart|cublas|cublasLt|nvrtc|cusparse|cusolver|cudnn|nccl)[.-]")


def libraries_by_process(run: RecordedRun) -> dict[str, list[MappedLibrary]]:
    """The crash record's inventory where there is one: it is from the moment of death."""
    found = {key: list(libraries) for key, libraries in run.libraries.items()}
    known = {lib.path: lib for libraries in found.values() for lib in libraries}
    for crash in run.crashes:
        if crash.libraries:
            key = f"{crash.pid}-{crash.start_ticks}"
            found[key] = [known.get(lib.path) or _described(lib) for lib in crash.libraries]
    return found


def _described(library: MappedLibrary) -> MappedLibrary:
    """What it is, by its content if the file is here, else by its name: the handler only noted
    where it was mapped."""
    if library.kind is not None:
        return library
    from rerail.recorder.vitals.libraries import describe

    kind, flavour, soname = describe(library.path)
    return replace(library, kind=kind, flavour=flavour, soname=library.soname or soname)


def read_libraries(run: RecordedRun) -> list[Observation]:
    by_process = libraries_by_process(run)
    keys = sorted(by_process, key=lambda key: _importance(run, key))
    found: list[Observation] = []
    seen: set[tuple[str, ...]] = set()
    for key in keys:
        for observation in _of_process(run, key, by_process[key]):
            told = (observation.kind, *sorted(observation.data["paths"]))
            if told not in seen:
                seen.add(told)
                found.append(observation)
    return found


def _importance(run: RecordedRun, key: str) -> tuple[bool, int, str]:
    process = run.by_key.get(key)
    crashed = any(f"{crash.pid}-{crash.start_ticks}" == key for crash in run.crashes)
    role = process.role if process else "child"
    return not crashed, _ROLE_ORDER.index(role) if role in _ROLE_ORDER else 9, key


def _of_process(
    run: RecordedRun, key: str, libraries: Sequence[MappedLibrary]
) -> Iterable[Observation]:
    pid = int(key.partition("-")[0])
    process = run.by_key.get(key)
    role = process.role if process else "child"
    openmp = _distinct(lib for lib in libraries if lib.kind == "openmp")
    if openmp:
        yield _openmp(pid, role, openmp)
    blas = _distinct(lib for lib in libraries if lib.kind == "blas")
    if len({lib.flavour or file_name(lib.path) for lib in blas}) > 1:
        yield _together("blas-libraries", "BLAS libraries", pid, role, blas)
    cuda = _distinct(lib for lib in libraries if lib.kind == "cuda")
    mixed = _mixed_cuda(cuda)
    if mixed:
        yield _together("cuda-libraries", "CUDA libraries of different versions", pid, role, mixed)


def _distinct(libraries: Iterable[MappedLibrary]) -> list[MappedLibrary]:
    return list({lib.path: lib for lib in libraries}.values())


def is_aborting_pair(runtimes: Sequence[MappedLibrary]) -> bool:
    """Two of the Intel/LLVM family in one process, of whatever flavour, from two paths."""
    return sum(lib.flavour in _KMP_FLAVOURS for lib in runtimes) > 1


def _openmp(pid: int, role: str, runtimes: list[MappedLibrary]) -> Observation:
    flavours = sorted({lib.flavour or file_name(lib.path) for lib in runtimes})
    aborts = is_aborting_pair(runtimes)
    names = [f"{file_name(lib.path)} ({lib.path})" for lib in runtimes]
    who = "the main process" if role == "main" else f"{role_in_words(role)} (pid {pid})"
    if len(runtimes) == 1:
        text = f"one OpenMP runtime was loaded in {who}: {names[0]}"
    else:
        text = f"{len(runtimes)} OpenMP runtimes were loaded in {who}: {listed(names)}"
        if aborts:
            text += "; two of the Intel/LLVM family abort at the second one's first use"
    return Observation(
        "openmp-runtimes",
        sentence(text),
        f"maps:{pid}",
        {
            "flavours": flavours,
            "paths": [lib.path for lib in runtimes],
            "names": [file_name(lib.path) for lib in runtimes],
            "count": len(runtimes),
            "aborting_pair": aborts,
            "pid": pid,
            "role": role,
        },
    )


def _together(
    kind: str, words: str, pid: int, role: str, libraries: list[MappedLibrary]
) -> Observation:
    names = [file_name(lib.path) for lib in libraries]
    return Observation(
        kind,
        sentence(f"{words} were loaded together in pid {pid}: {listed(names)}"),
        f"maps:{pid}",
        {
            "flavours": sorted({lib.flavour or file_name(lib.path) for lib in libraries}),
            "paths": [lib.path for lib in libraries],
            "pid": pid,
            "role": role,
        },
    )


def _mixed_cuda(libraries: Sequence[MappedLibrary]) -> list[MappedLibrary]:
    """The members of a CUDA library that is loaded in two major versions."""
    by_name: dict[str, list[tuple[str, MappedLibrary]]] = {}
    for library in libraries:
        name = file_name(library.path)
        match, major = _CUDA_RUNTIME.match(name), _MAJOR.search(name)
        if match and major:
            by_name.setdefault(match[1], []).append((major[1], library))
    return [
        library
        for members in by_name.values()
        if len({major for major, _ in members}) > 1
        for _, library in members
    ]
