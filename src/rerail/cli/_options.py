"""Options that every command spells and treats the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rerail.store import Store, find_home

F = TypeVar("F", bound=Callable[..., Any])


def home_option(function: F) -> F:
    """--home FOLDER, given to the command as `home`."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Where the runs are [default: RERAIL_HOME, else .rerail here].",
    )(function)


def json_option(function: F) -> F:
    """--json, given to the command as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on standard output."
    )(function)


def stall_option(function: F) -> F:
    """--stall SECONDS, given to the command as `stall_seconds`."""
    return click.option(
        "--stall",
        "stall_seconds",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="No step and no output for this long is a hang [default: from the run's own pace].",
    )(function)


def store_to_read(home: Path | None) -> Store:
    """The store that --home, RERAIL_HOME, or the nearest `.rerail` here or above says."""
    return Store(find_home(home, for_reading=True))


def store_to_write(home: Path | None) -> Store:
    """The store that --home, RERAIL_HOME, or `.rerail` here says."""
    return Store(find_home(home))
