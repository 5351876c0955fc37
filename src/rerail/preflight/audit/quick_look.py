"""The part of the audit that costs nothing: from the surroundings that a run records anyway.

In: surroundings. Out: bad news only. Imports little: it is asked while the command starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rerail.preflight.audit import compatibility, limits, variables
from rerail.preflight.audit.finding import Finding, by_gravity, is_bad


def quick(surroundings: Mapping[str, Any]) -> list[Finding]:
    packages = surroundings.get("packages") or {}
    found = limits.find_limits(surroundings)
    found += variables.find_variables(
        surroundings.get("environment") or {}, list(packages), has_gpu=bool(surroundings.get("gpu"))
    )
    found += compatibility.find_in_versions(packages)
    return by_gravity(finding for finding in found if is_bad(finding))
