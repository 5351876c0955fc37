"""From a recorded run to what a person reads, and to the contract's document.

In: the folder of a run that has ended. Out: the diagnosis, kept in the folder as `diagnosis.json`
and shown on standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rerail.store import RunFolder, Store, layout
from rerail.store.codec import dumps


def explain_recording(path: Path, store: Store, *, shows: bool) -> bytes:
    """Diagnose one run, show it if asked to; the JSON document with its newline."""
    from rerail.report import diagnosis_of

    folder = RunFolder(path)
    document = diagnosis_of(folder, store.history(folder.info()))
    layout.keep_diagnosis(path, dumps(document, indent=1))
    if shows:
        _show(document)
    return dumps({**document, "run": path.name}).encode() + b"\n"


def _show(document: dict[str, Any]) -> None:
    from rerail.report import terminal

    terminal.show(document, sys.stderr)
