"""What the run used: the fact `uses`, by which remedies that make no sense are left out.

In: a recorded run. Out: words of USES and frameworks, in their order; None where nothing inside
the processes was recorded, because then nobody knows.
"""

from __future__ import annotations

from pathlib import PurePath

from rerail.evidence.run.material import RecordedRun
from rerail.wording import file_name

USES = ("python", "torch", "loader", "loader-workers", "ranks", "cuda")
# By the folder of a package that has native libraries.
_FRAMEWORKS = {
    "jaxlib": "jax",
    "tensorflow": "tensorflow",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "pandas": "pandas",
}

_OF_A_GPU = ("libcuda.so", "libcudart", "libamdhip64", "libze_loader", "libascendcl", "libtpu")


def read_uses(run: RecordedRun) -> list[str] | None:
    if not run.boxes:
        return None
    loaders = [loader for box in run.boxes for loader in box.loaders]
    names = {file_name(lib.path) for libraries in run.libraries.values() for lib in libraries}
    ranks = {run.rank_of(process) for process in run.processes} - {None}
    has_workers = any(process.role == "loader-worker" for process in run.processes)
    used = {
        "python": True,
        "torch": any(name.startswith("libtorch") for name in names)
        or any(box.optimizer_steps or box.backward_calls or box.loaders for box in run.boxes),
        "loader": bool(loaders),
        "loader-workers": has_workers or any(loader.workers for loader in loaders),
        "ranks": len(ranks) > 1 or any((box.world_size or 1) > 1 for box in run.boxes),
        "cuda": any(name.startswith(_OF_A_GPU) for name in names),
    }
    folders = {
        part
        for libraries in run.libraries.values()
        for lib in libraries
        for part in PurePath(lib.path).parts
    }
    frameworks = [word for folder, word in _FRAMEWORKS.items() if folder in folders]
    return [word for word in USES if used[word]] + frameworks
