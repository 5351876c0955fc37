"""Whether a process that a test has seen is still there."""

from __future__ import annotations

import os
from pathlib import Path


def is_alive(pid: int) -> bool:
    """A zombie that nobody has waited for is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
