"""Where the runs live.

In: what the user said (--home), the environment, the working folder. Out: one folder. Nothing is
created here.
"""

from __future__ import annotations

import os
from pathlib import Path

from rerail.errors import StoreUnavailable

NAME = ".rerail"
NO_FOLDER = "run folder in "  # what a record lacks that could not be made in this home


def find_home(explicit: str | os.PathLike[str] | None = None, *, for_reading: bool = False) -> Path:
    """--home, else RERAIL_HOME, else `.rerail` here; to read, also that of the nearest parent."""
    if explicit:
        return Path(explicit).expanduser().absolute()
    if from_environment := os.environ.get("RERAIL_HOME"):
        return Path(from_environment).expanduser().absolute()
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise StoreUnavailable(
            "the working folder does not exist any more",
            "Go to another one, or say where the runs are with --home or RERAIL_HOME.",
        ) from None
    if for_reading:
        for folder in (here, *here.parents):
            if (folder / NAME).is_dir():
                return folder / NAME
    return here / NAME


def fallback_home() -> Path:
    """Where a run goes when its store cannot be written: a private folder of this user's."""
    import tempfile  # here, not above: it costs the start of every `rerail run` milliseconds

    return Path(tempfile.gettempdir()) / f"rerail-{os.getuid()}"


def is_ours(path: Path) -> bool:
    """Whether nobody else can have prepared this folder for us, as anyone may in /tmp."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return path.is_dir() and not path.is_symlink() and status.st_uid == os.getuid()
