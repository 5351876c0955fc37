"""A name of a shared library that LD_PRELOAD can hold.

Comes in: the path of a library. Goes out: that path, or, where the loader would tear it apart, the
path through a link to its folder. Promises: a link is only made where nobody else can write; if no
such place is found, the answer is None and nothing is preloaded.

The loader takes LD_PRELOAD apart at spaces and colons, knows no way to quote them, and complains on
the program's standard error about every piece that it does not find. So a library in a folder such
as `/home/me/my projects` cannot be named by its path. The link stays: a process of the run may
start others for as long as it lives, also after the recorder.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

# A dollar sign begins what the loader replaces: $ORIGIN, $LIB.
_TAKEN_APART = re.compile(r"[\s:;$]")


def preloadable(library: str) -> str | None:
    if not _TAKEN_APART.search(library):
        return library
    import hashlib  # here, as few need it

    # The link stands for the folder: the library keeps its name and what it looks for beside it.
    beside, _, name = library.rpartition("/")
    own = hashlib.sha256(os.fsencode(beside)).hexdigest()[:16]
    for folder in _folders():
        if _TAKEN_APART.search(f"{folder}{name}"):
            continue
        try:
            if _is_ours_alone(folder):
                return f"{_link(folder / own, beside)}/{name}"
        except OSError:
            continue
    return None


def _folders() -> Iterator[Path]:
    home = os.environ.get("HOME", "")
    cache = os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    if cache.startswith("/"):
        yield Path(cache) / "rerail"
    import tempfile

    yield Path(tempfile.gettempdir()) / f"rerail-{os.getuid()}"


def _is_ours_alone(folder: Path) -> bool:
    """Whoever may write there could bring code into the user's program."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o755, exist_ok=True)
    found = folder.lstat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write


def _link(link: Path, target: str) -> Path:
    if not link.is_symlink() or str(link.readlink()) != target:
        own = link.with_name(f"{link.name}.{os.getpid()}")
        own.unlink(missing_ok=True)
        own.symlink_to(target)
        own.replace(link)  # at once: another run may be starting
    return link
