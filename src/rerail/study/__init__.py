"""An ablation that loses nothing: every cell of a grid a recorded run, finished or explained.

`load_study(path)` reads a study file, `run_study(study, store)` runs or continues it, and
`read_states(study)` says how it stands, also while it runs elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.study import html, table, terminal
    from rerail.study.door import read_states, run_study
    from rerail.study.file import load_study
    from rerail.study.journal import NAME, is_running
    from rerail.study.model import Study
    from rerail.study.starter import write_starter
    from rerail.study.watching import Silent, StudyOptions

__all__ = [
    "NAME",
    "Silent",
    "Study",
    "StudyOptions",
    "html",
    "is_running",
    "load_study",
    "read_states",
    "run_study",
    "table",
    "terminal",
    "write_starter",
]

__getattr__ = door(
    __name__,
    {
        "NAME": "journal",
        "Silent": "watching",
        "Study": "model",
        "StudyOptions": "watching",
        "html": "html",
        "is_running": "journal",
        "load_study": "file",
        "read_states": "door",
        "run_study": "door",
        "table": "table",
        "terminal": "terminal",
        "write_starter": "starter",
    },
)
