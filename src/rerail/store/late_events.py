"""Events that belong to a run and are written by somebody else than its recorder.

In: a folder with an `events.jsonl`, live or over. Out: one more line at its end. Promises: the line
is appended in one write, beside whoever else appends; nothing is raised, since a record that cannot
be written must hurt nobody; what is written was masked by the caller.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rerail.errors import RerailError
from rerail.store import layout
from rerail.store.appending import FaultLog, LineLog
from rerail.store.codec import dump_line
from rerail.store.folder import RunFolder


def add_event(run: Path, kind: str, data: dict[str, Any]) -> bool:
    """False if it could not be written."""
    if not run.is_dir():
        return False
    try:
        t = (time.monotonic_ns() - RunFolder(run).t0_ns) / 1e9
    except RerailError:
        t = 0.0  # its run.json is gone; the event is still worth keeping
    log = LineLog(run / layout.EVENTS, FaultLog())
    try:
        return log.append(dump_line({"t": round(t, 3), "kind": kind, **data}))
    finally:
        log.close()
