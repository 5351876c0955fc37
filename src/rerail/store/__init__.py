"""The store: run folders, written while they happen and read back as records.

`Store(home)` makes, finds, lists and removes runs; `RunWriter` streams one; `RunFolder` reads one;
`find_home` says where they live. docs/run-folder.md is the layout, docs/store.md the promises.
"""

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
