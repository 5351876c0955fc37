"""The doors of rooms, opened when somebody comes: names that are imported when first asked for.

In: a room's name and where each public name lives below it. Out: the room's `__getattr__`. Starting
`rerail run` must not wait for what only an HTML page needs. A room lists the same names once more
below TYPE_CHECKING, where type checkers and readers look; tests/test_house.py holds the lists
together.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def door(room: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """`places`: name to module below the room; a name that is the module's own is the module."""

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module = importlib.import_module(f"{room}.{places[name]}")
        is_module = places[name].rpartition(".")[2] == name and not hasattr(module, name)
        return module if is_module else getattr(module, name)

    return get
