"""Keeping the store within its size: oldest runs go first, live runs never.

In: a store's runs folder and a limit in bytes. Out: the ids that were removed. Removal renames the
folder aside first, so that a half-removed run is never taken for a run, and of several processes
that remove the same run exactly one does.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from rerail.errors import UsageError
from rerail.platform.patterns import linear
from rerail.store.regular_files import is_own_folder

DEFAULT_LIMIT_BYTES = 5 * 1024**3

_SIZE = linear(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def parse_size(text: str) -> int:
    """Bytes for "500M", "5 GiB", "1.5g". Powers of 1024 throughout."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise UsageError(f"not a size: {text!r}", "Write it like 500M or 5GiB.")
    return int(float(found[1]) * _FACTORS[found[2].lower()])


def limit_bytes() -> int:
    """RERAIL_STORE_LIMIT, or the default. A limit that cannot be read is no reason to delete."""
    text = os.environ.get("RERAIL_STORE_LIMIT")
    return parse_size(text) if text else DEFAULT_LIMIT_BYTES


def remove_folder(path: Path) -> None:
    """Remove a run folder, or raise the OSError that says why it is still there."""
    import shutil  # here, not above: it costs the start of every `rerail run` milliseconds

    aside = path.with_name(f".removed-{path.name}-{os.getpid()}")
    path.rename(aside)
    if is_own_folder(aside):
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink()  # a link to a run elsewhere, which stays as it is


def sweep_leftovers(runs: Path) -> None:
    """Finish removals that were cut short."""
    import shutil

    try:
        leftovers = [path for path in runs.iterdir() if path.name.startswith(".removed-")]
    except OSError:
        return
    for path in leftovers:
        if is_own_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
