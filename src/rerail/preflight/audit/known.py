"""The data files of this room: what is known of packages, variables and processors, with sources.

In: the name of a file here. Out: its tables. Each is read once.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def load(name: str) -> dict[str, list[dict[str, Any]]]:
    with (Path(__file__).parent / f"{name}.toml").open("rb") as file:
        found: dict[str, list[dict[str, Any]]] = tomllib.load(file)
    return found


@cache
def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: enough to compare releases."""
    found: list[int] = []
    for part in version.partition("+")[0].split("."):
        digits = ""
        for letter in part:
            if not letter.isdigit():
                break
            digits += letter
        if not digits:
            break
        found.append(int(digits))
        if len(digits) < len(part):
            break
    return tuple(found)
