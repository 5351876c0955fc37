"""Before the run: what in an environment, and in a command's memory needs, will kill it.

`audit` looks without running anything, and `quick` is the part of it that costs nothing; `check`
adds a dry run of a few steps, from which the memory of the whole run is planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rerail.preflight.audit.auditing import Audit, audit
    from rerail.preflight.audit.finding import Finding
    from rerail.preflight.audit.quick_look import quick
    from rerail.preflight.checking import Check, check

__all__ = ["Audit", "Check", "Finding", "audit", "check", "quick"]

_WHERE = {
    "Audit": "auditing",
    "Check": "checking",
    "Finding": "finding",
    "audit": "auditing",
    "check": "checking",
    "quick": "quick_look",
}


def __getattr__(name: str) -> Any:
    """Each is imported when asked for: `rerail run` needs `quick` alone, and soon."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
