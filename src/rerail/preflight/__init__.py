"""Before the run: what in an environment, and in a command's memory needs, will kill it.

`audit` looks without running anything, and `quick` is the part of it that costs nothing; `check`
adds a dry run of a few steps, from which the memory of the whole run is planned.
"""

from __future__ import annotations

from typing import Any

from rerail.preflight.audit import Audit, audit, quick
from rerail.preflight.finding import Finding

__all__ = ["Audit", "Finding", "audit", "check", "quick"]


def __getattr__(name: str) -> Any:
    """`check` brings the scheduler and the diagnosis with it: only for who asks."""
    if name == "check":
        from rerail.preflight.check import check

        return check
    raise AttributeError(name)
