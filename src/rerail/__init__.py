"""rerail finds out why a training run died, proves it, and puts the run back on the rails.

From Python: `rerail.explain`, `rerail.runs`, `rerail.open_run`, `rerail.record`, `rerail.causes`
(docs/python.md); inside a training `rerail.step`, `rerail.phase`. They are imported when first
asked for, without the help of another module: this one stands before `rerail run` can run a
command bare, when importing may be what fails.
"""

import sys

__version__ = "0.1.0"

ON_WINDOWS = (
    "rerail runs on Linux and macOS. On Windows use it inside WSL: type `wsl --install`,"
    " then install rerail there, beside the training."
)

TYPE_CHECKING = False  # what type checkers take for true; `typing` itself is not loaded for it

if TYPE_CHECKING:
    from rerail.api import (
        Diagnosis,
        RerailError,
        Run,
        Runs,
        causes,
        explain,
        open_run,
        record,
        runs,
    )
    from rerail.marks import phase, step

__all__ = [
    "Diagnosis",
    "RerailError",
    "Run",
    "Runs",
    "__version__",
    "causes",
    "explain",
    "open_run",
    "phase",
    "record",
    "runs",
    "step",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("step", "phase"):
        from rerail import marks

        globals().update(step=marks.step, phase=marks.phase)  # called once a step: no detour
        return globals()[name]
    if sys.platform == "win32":
        raise ImportError(ON_WINDOWS)
    from rerail import api

    return getattr(api, name)


def load_ipython_extension(shell: object) -> None:
    """`%load_ext rerail` in a notebook (docs/notebooks.md)."""
    from rerail.integrations import load_into

    load_into(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
