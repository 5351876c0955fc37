"""Environment variables that hide faults, oversubscribe the cores or point at another Python.

In: the variables of the command, names of packages, cores. Out: findings. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.known import load

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def find_variables(
    environ: Mapping[str, str],
    packages: Collection[str] = (),
    *,
    has_gpu: bool = False,
    python: tuple[int, int] | None = None,
) -> list[Finding]:
    found = []
    for rule in load("variables")["variable"]:
        value = environ.get(rule["name"])
        if value is None or not re.fullmatch(rule["value"], value.strip(), re.IGNORECASE):
            continue
        if rule.get("needs_gpu") and not has_gpu:
            continue
        if rule.get("needs_package") and rule["needs_package"] not in packages:
            continue
        found.append(_finding(rule))
    found += _foreign_path(environ, python)
    if not found:
        found.append(Finding("bad-config", "fine", "No variable hides a fault"))
    return found


def _finding(rule: Mapping[str, Any]) -> Finding:
    return Finding(
        rule["id"],
        rule["level"],
        rule["title"],
        rule["why"],
        (rule["do"],),
        (rule["name"],),
        (rule["fix"],) if "fix" in rule else (),
        rule["source"],
    )


def _foreign_path(environ: Mapping[str, str], python: tuple[int, int] | None) -> list[Finding]:
    if python is None:
        return []
    for part in environ.get("PYTHONPATH", "").split(":"):
        named = re.search(r"python(\d)\.(\d+)/(?:site|dist)-packages", part)
        if named and (int(named[1]), int(named[2])) != python:
            return [
                Finding(
                    "dependency-missing",
                    "risky",
                    f"PYTHONPATH holds packages of Python {named[1]}.{named[2]}",
                    f"The command runs Python {python[0]}.{python[1]}: native modules from there"
                    " cannot be imported, and hide those that could.",
                    ("unset PYTHONPATH",),
                    (part,),
                    ("unset PYTHONPATH",),
                )
            ]
    return []


def threads_asked_for(environ: Mapping[str, str]) -> tuple[int, str] | None:
    """The largest number of threads that a variable asks every process to have."""
    largest: tuple[int, str] | None = None
    for name in _THREAD_VARIABLES:
        value = environ.get(name, "").partition(",")[0].strip()
        if value.isdigit() and (largest is None or int(value) > largest[0]):
            largest = (int(value), name)
    return largest
