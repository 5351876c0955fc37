"""What a recorded run shows of the command: which changes can make a difference to it.

In: a run folder. Out: a `Profile`, plain data that can be kept. An empty profile means that
nothing is known, and then nothing is held not to apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rerail.records import MappedLibrary
from rerail.store import RunFolder

# Intel's and LLVM's runtime answer to GNU's calls too; GNU's does not answer to theirs.
_KEEP_ORDER = ("libiomp5", "libomp", "libgomp")


@dataclass(frozen=True)
class Profile:
    is_recorded: bool = False
    has_boxes: bool = False
    loaders: tuple[int, ...] = ()  # workers of each DataLoader
    pins_memory: bool = False
    uses_torch: bool = False
    uses_gpu: bool = False
    loads_npz: bool = False
    openmp_paths: tuple[tuple[str, str], ...] = ()  # flavour and path
    peak_rss_bytes: int = 0
    busy_share: float = 0.0  # processors in use on average

    @property
    def loader_workers(self) -> int:
        return max(self.loaders, default=0)

    def openmp_to_keep(self) -> str | None:
        """The one runtime that can stand in for all that were loaded."""
        there = [(f, path) for f, path in self.openmp_paths if Path(path).is_file()]
        there.sort(key=lambda pair: _KEEP_ORDER.index(pair[0]) if pair[0] in _KEEP_ORDER else 9)
        return there[0][1] if there else None


def read_profile(folder: RunFolder) -> Profile:
    boxes = folder.boxes()
    libraries: dict[str, MappedLibrary] = {}
    for found in folder.libraries().values():
        libraries.update((library.path, library) for library in found)
    for crash in folder.crashes():
        for library in crash.libraries:
            libraries.setdefault(library.path, library)
    names = [path.rpartition("/")[2] for path in libraries]
    vitals = folder.recent_vitals()
    loaders = [loader for box in boxes for loader in box.loaders]
    return Profile(
        is_recorded=bool(libraries),
        has_boxes=bool(boxes),
        loaders=tuple(sorted({loader.workers for loader in loaders})),
        pins_memory=any(loader.pin_memory for loader in loaders),
        uses_torch=any(name.startswith("libtorch") for name in names),
        uses_gpu=any(name.startswith(("libcuda.so", "libhsa-runtime")) for name in names),
        loads_npz=any(
            file.loader == "numpy.load" and file.path.endswith(".npz")
            for box in boxes
            for file in box.files
        ),
        openmp_paths=tuple(
            (_flavour(library), library.path)
            for library in sorted(libraries.values(), key=lambda each: each.path)
            if _flavour(library)
        ),
        peak_rss_bytes=max((row.tree.rss_bytes for row in vitals), default=0),
        busy_share=vitals[-1].tree.cpu_seconds / max(vitals[-1].t_seconds, 0.1) if vitals else 0.0,
    )


def _flavour(library: MappedLibrary) -> str:
    if library.kind == "openmp" and library.flavour:
        return library.flavour
    name = library.path.rpartition("/")[2]
    return next((flavour for flavour in _KEEP_ORDER if name.startswith(flavour)), "")
