"""Before the run: what in an environment, and in a command's memory needs, will kill it.

`audit` looks without running anything, and `quick` is the part of it that costs nothing; `check`
adds a dry run of a few steps, from which the memory of the whole run is planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.preflight import view
    from rerail.preflight.audit import fixes, limits
    from rerail.preflight.audit.auditing import Audit
    from rerail.preflight.audit.finding import Finding
    from rerail.preflight.audit.quick_look import quick
    from rerail.preflight.audit.target import active_interpreter
    from rerail.preflight.checking import Check, check
    from rerail.preflight.memory import array_file
    from rerail.preflight.memory.stopping import Stop, Stopped

__all__ = [
    "Audit",
    "Check",
    "Finding",
    "Stop",
    "Stopped",
    "active_interpreter",
    "array_file",
    "check",
    "fixes",
    "limits",
    "quick",
    "view",
]

__getattr__ = door(
    __name__,
    {
        "Audit": "audit.auditing",
        "Check": "checking",
        "Finding": "audit.finding",
        "Stop": "memory.stopping",
        "Stopped": "memory.stopping",
        "active_interpreter": "audit.target",
        "array_file": "memory.array_file",
        "check": "checking",
        "fixes": "audit.fixes",
        "limits": "audit.limits",
        "quick": "audit.quick_look",
        "view": "view",
    },
)
