"""The store: run folders, written while they happen and read back as records.

`Store(home)` makes, finds, lists and removes runs; `RunWriter` streams one; `RunFolder` reads one;
`find_home` says where they live. docs/run-folder.md is the layout, docs/store.md the promises.
The names below are imported when first asked for, because `rerail run` waits for every import and
needs only those that write.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rerail.store.folder import RunFolder
    from rerail.store.home import find_home
    from rerail.store.output_reader import OutputLine, OutputReader
    from rerail.store.store import RunSummary, Store
    from rerail.store.writer import RunWriter

__all__ = [
    "OutputLine",
    "OutputReader",
    "RunFolder",
    "RunSummary",
    "RunWriter",
    "Store",
    "find_home",
]

_WHERE = {
    "OutputLine": "output_reader",
    "OutputReader": "output_reader",
    "RunFolder": "folder",
    "RunSummary": "store",
    "RunWriter": "writer",
    "Store": "store",
    "find_home": "home",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
