"""What each run takes on the disk, remembered, so that a new run need not look at all old ones.

In: a store's home and the ids of its runs. Out: bytes per run. `sizes.jsonl` in the home is a cache
that only grows, a line per run that has ended; it is written anew when most of it speaks of runs
that are gone. Runs that have not ended are looked at every time. Nothing here raises OSError.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from rerail.store import layout
from rerail.store.codec import dump_line
from rerail.store.jsonlines import read_objects
from rerail.store.regular_files import is_own_folder, open_append


def sizes_of(home: Path, ids: Sequence[str], seconds: float | None = None) -> dict[str, int]:
    """Bytes of these runs; of those only that could be looked at within the time.

    What was looked at is remembered, so that the next call gets further.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    known, lines = _read(home)
    found: dict[str, int] = {}
    new: dict[str, int] = {}
    for name in ids:
        if name in known:
            found[name] = known[name]
        elif deadline is None or time.monotonic() < deadline:
            path = home / layout.RUNS / name
            found[name] = folder_bytes(path)
            if (path / layout.RUN).exists() and not (path / layout.RESERVE).exists():
                new[name] = found[name]  # it has ended
    _remember(home, known, new, lines, set(ids))
    return found


def folder_bytes(path: Path) -> int:
    """What a run folder takes on the disk; blocks, not lengths: the black boxes are sparse."""
    total = 0
    if not is_own_folder(path):
        return 0  # a link: what it points to is not part of the store
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        total += folder_bytes(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                except OSError:
                    continue
    except OSError:
        pass
    return total


def _read(home: Path) -> tuple[dict[str, int], int]:
    known: dict[str, int] = {}
    lines = 0
    try:
        for row in read_objects(home / layout.SIZES):
            lines += 1
            name, size = row.get("id"), row.get("bytes")
            if isinstance(name, str) and isinstance(size, int) and size >= 0:
                known[name] = size
    except Exception:  # a cache that cannot be read is an empty one
        return {}, 0
    return known, lines


def _remember(
    home: Path, known: dict[str, int], new: dict[str, int], lines: int, ids: set[str]
) -> None:
    try:
        if lines > 2 * len(ids) + 64:
            kept = {**{name: size for name, size in known.items() if name in ids}, **new}
            layout.replace_file(home / layout.SIZES, _text(kept))
        elif new:
            descriptor = open_append(home / layout.SIZES, is_shared=True)
            try:
                os.write(descriptor, _text(new))
            finally:
                os.close(descriptor)
    except OSError:
        pass


def _text(sizes: dict[str, int]) -> bytes:
    return b"".join(dump_line({"id": name, "bytes": size}) for name, size in sizes.items())
