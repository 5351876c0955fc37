"""OpenMP, BLAS, allocators, C++ and CUDA runtimes: how many of each would meet in one process.

In: the closure of what would be loaded. Out: findings. Two of LLVM's family (libomp, libiomp5) in
one process abort; two of GNU's, or one of each family, do not, but each keeps its own threads.
Runtimes that the loader would fold into one, because they carry one soname, count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rerail.preflight.audit.closure import Closure, library_files
from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.target import Target
from rerail.recorder.vitals.libraries import describe
from rerail.records import MappedLibrary
from rerail.wording import counted, listed

_ABORT_TOGETHER = {"libomp", "libiomp5", "libnvomp"}
_SOURCE = "https://github.com/joblib/threadpoolctl/blob/master/multiple_openmp.md"
_ID = "openmp-duplicate-runtime"


@dataclass(frozen=True)
class Runtime:
    kind: str
    flavour: str
    path: str
    soname: str
    users: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.flavour} of {listed(self.users)}" if self.users else self.flavour


def linked_runtimes(closure: Closure) -> list[Runtime]:
    """One per soname: the loader gives the second user of a name the first one's library."""
    found: dict[tuple[str, str], Runtime] = {}
    for path, users in sorted(closure.brought_by.items()):
        kind, flavour, soname = describe(path)
        if kind is None or flavour is None:
            continue
        name = soname if soname and path not in closure.named else path
        before = found.get((kind, name))
        users = users | set(before.users) if before else users
        found[kind, name] = Runtime(kind, flavour, path, name, tuple(sorted(users)))
    return list(found.values())


def present_runtimes(closure: Closure, prefix: str | None) -> list[Runtime]:
    """OpenMP runtimes that lie in the environment without anybody linking to them."""
    owners = dict(closure.present)
    for path in library_files(f"{prefix}/lib") if prefix else ():
        if path not in closure.brought_by:
            owners.setdefault(path, "")
    found = []
    for path, owner in sorted(owners.items()):
        name = path.rpartition("/")[2]
        if "omp" not in name:  # by content would mean opening every file there is
            continue
        kind, flavour, soname = describe(path)
        if kind == "openmp" and flavour is not None:
            users = (owner,) if owner else ()
            found.append(Runtime(kind, flavour, path, soname or path, users))
    return found


def find_openmp(target: Target, closure: Closure) -> list[Finding]:
    prefix = target.interpreter.prefix if target.interpreter else None
    linked = [r for r in linked_runtimes(closure) if r.kind == "openmp"]
    linked_paths = {r.path for r in linked}
    present = [r for r in present_runtimes(closure, prefix) if r.path not in linked_paths]
    return _judge(linked, present, target.environ, _forks(target))


def find_mapped_openmp(
    libraries: Iterable[MappedLibrary], environ: Mapping[str, str], forks: bool
) -> list[Finding]:
    """Of what a process of the dry run really had loaded."""
    found = [
        Runtime("openmp", lib.flavour, lib.path, lib.path, (lib.path,))
        for lib in libraries
        if lib.kind == "openmp" and lib.flavour
    ]
    return _judge(found, [], environ, forks)


def _forks(target: Target) -> bool:
    """Without a program to read it is taken that torch's loader will fork workers."""
    methods = set(target.program.start_methods)
    if methods and "fork" not in methods:
        return False
    if target.has_program:
        return target.program.starts_processes
    return "torch" in target.distributions


def _judge(
    linked: Sequence[Runtime],
    present: Sequence[Runtime],
    environ: Mapping[str, str],
    forks: bool,
) -> list[Finding]:
    aborting = [r for r in linked if r.flavour in _ABORT_TOGETHER]
    if len(aborting) >= 2:
        return [_aborts(aborting, environ)]
    sleeping = [r for r in present if r.flavour in _ABORT_TOGETHER]
    if len(aborting) + len(sleeping) >= 2:
        return [_may_abort([*aborting, *sleeping]), *_several(linked, forks)]
    if len(linked) >= 2:
        return _several(linked, forks)
    words = f"One OpenMP runtime: {linked[0].label}" if linked else "No OpenMP runtime"
    return [Finding(_ID, "fine", words, where=tuple(r.path for r in linked))]


def _aborts(runtimes: Sequence[Runtime], environ: Mapping[str, str]) -> Finding:
    names = listed([r.label for r in runtimes])
    hidden = environ.get("KMP_DUPLICATE_LIB_OK", "").upper() in ("TRUE", "1", "YES", "ON", "T")
    why = "The second one to start aborts the process with OMP Error #15."
    if hidden:
        why = (
            "KMP_DUPLICATE_LIB_OK keeps the second one from aborting; its own warning says that"
            " results may silently be wrong."
        )
    return Finding(
        _ID,
        "risky" if hidden else "fatal",
        f"{counted(len(runtimes), 'OpenMP runtime')} that abort together: {names}",
        why,
        (
            "install these packages so that they share one runtime (conda-forge, or one vendor)",
            f"or load one for all: LD_PRELOAD={runtimes[0].path}",
        ),
        tuple(r.path for r in runtimes),
        source=_SOURCE,
    )


def _may_abort(runtimes: Sequence[Runtime]) -> Finding:
    return Finding(
        _ID,
        "risky",
        f"Two OpenMP runtimes lie ready that abort together: {listed([r.label for r in runtimes])}",
        "Whatever loads both in one process dies with OMP Error #15 at the second one's start.",
        ("remove the one that nothing needs, or share one of them",),
        tuple(r.path for r in runtimes),
        source=_SOURCE,
    )


def _several(linked: Sequence[Runtime], forks: bool) -> list[Finding]:
    if len(linked) < 2:
        return []
    names = listed([r.label for r in linked])
    where = tuple(r.path for r in linked)
    found = [
        Finding(
            _ID,
            "risky",
            f"{len(linked)} OpenMP runtimes in one process: {names}",
            "Each keeps its own threads, so that together they ask for more cores than there are.",
            ("OMP_NUM_THREADS=1 for the one that works beside the other",),
            where,
            source=_SOURCE,
        )
    ]
    if forks and any(r.flavour == "libgomp" for r in linked):
        found.append(
            Finding(
                "fork-after-threads",
                "risky",
                "Forked workers would inherit OpenMP threads that do not exist in them",
                "GNU's libgomp hangs for good in a forked child if the parent has used it: a FAISS"
                " search or a scikit-learn call inside a DataLoader worker does that.",
                (
                    "multiprocessing_context='spawn' for the DataLoader, or its work in the parent",
                    "prove it: rerail isolate --try start-method=spawn -- CMD",
                ),
                where,
                source="https://gcc.gnu.org/bugzilla/show_bug.cgi?id=58378",
            )
        )
    return found


def find_others(target: Target, closure: Closure) -> list[Finding]:
    """BLAS, C++ and CUDA: several are normal, and worth knowing."""
    runtimes = linked_runtimes(closure)
    found = []
    blas = [r for r in runtimes if r.kind == "blas"]
    if blas:
        names = listed([r.label for r in blas])
        found.append(
            Finding(
                "threading-layer-conflict",
                "fine",
                f"BLAS: {names}",
                "Several copies do not conflict; each starts threads of its own."
                if len(blas) > 1
                else "",
                where=tuple(r.path for r in blas),
            )
        )
    found += _cuda(runtimes)
    allocators = [r for r in runtimes if r.kind == "allocator"]
    if len({r.flavour for r in allocators}) > 1:
        names = listed([r.label for r in allocators])
        found.append(
            Finding(
                "heap-corruption",
                "risky",
                f"Several allocators in one process: {names}",
                "Memory taken from one and given back to the other corrupts the heap.",
                ("load one of them for all: LD_PRELOAD", "or leave one of the packages out"),
                tuple(r.path for r in allocators),
            )
        )
    return found


def _cuda(runtimes: Sequence[Runtime]) -> list[Finding]:
    by_flavour: dict[str, list[Runtime]] = {}
    for runtime in runtimes:
        if runtime.kind == "cuda" and runtime.flavour in ("cudart", "cudnn", "cublas", "nccl"):
            by_flavour.setdefault(runtime.flavour, []).append(runtime)
    twice = {f: found for f, found in by_flavour.items() if len(found) > 1}
    if twice:
        return [
            Finding(
                "cuda-library-failed",
                "risky",
                f"{flavour} in {len(found)} versions: {listed([r.label for r in found])}",
                "Handles and memory of one version are not valid in the other.",
                ("install wheels that are built for one CUDA version",),
                tuple(r.path for r in found),
            )
            for flavour, found in twice.items()
        ]
    if by_flavour:
        names = listed(sorted(by_flavour))
        return [Finding("cuda-library-failed", "fine", f"CUDA libraries once each: {names}")]
    return []
