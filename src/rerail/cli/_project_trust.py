"""What a project's file may set only after the user allowed it for that folder, as direnv does.

In: the settings of a project's file that reach outside of the project's own store. Out: whether the
user allowed exactly these, or a sentence that says what was passed over and what to type.
Promises: only `allow` writes, and only into the user's own state folder ($XDG_STATE_HOME/rerail,
else ~/.local/state/rerail). A record that is missing, damaged, of another user, or writable by
others allows nothing; so does a record of other values than those in the file now. What is slow to
import is imported by the functions: a command without such settings does not wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rerail.errors import RerailError

if TYPE_CHECKING:
    from rerail.cli._settings import Setting

# What a setting can do; a verb first, since a sentence about one setting adds an s to it.
RUNS = "run commands"
MOVES = "move the store"
WRITES = "write files"
STARTS = "change how your command is started"
SENDS = "send work to other machines"
EFFECTS = (RUNS, MOVES, WRITES, STARTS, SENDS)
_MOST_BYTES = 1 << 16  # a record is one line: a hash and a path


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """Return where the user's own state is, by the rules of XDG; None without a home."""
    for variable, inside in (("XDG_STATE_HOME", ""), ("HOME", ".local/state")):
        base = environ.get(variable) or ""
        if base.startswith("/"):
            return Path(base) / inside / "rerail"
    return None


def is_allowed(folder: Path, settings: Sequence[Setting], environ: Mapping[str, str]) -> bool:
    """Whether the user allowed exactly these settings for this folder."""
    from rerail.store import read_regular

    state, record = state_folder(environ), _record(folder, settings)
    if state is None or record is None:
        return False
    path = _path_of(state, folder)
    try:
        status = path.lstat()
        is_own = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
        return is_own and read_regular(path, _MOST_BYTES) == record
    except (OSError, ValueError):
        return False


def allow(folder: Path, settings: Sequence[Setting], environ: Mapping[str, str]) -> None:
    """Record that the user allows exactly these settings for this folder."""
    from rerail.store import layout

    state, record = state_folder(environ), _record(folder, settings)
    if state is None:
        raise RerailError(
            "There is no folder to keep the permission in: HOME is not set.",
            "Set HOME or XDG_STATE_HOME to an absolute path.",
        )
    if record is None:
        raise RerailError(f"The settings in {folder} cannot be allowed: a value is too large.")
    path = _path_of(state, folder)
    try:
        layout.make_folder(state)
        layout.make_folder(path.parent)
        layout.replace_file(path, record)
    except OSError as error:
        raise RerailError(
            f"The permission cannot be written to {path}: {error.strerror}.",
            "Set XDG_STATE_HOME to a folder that you can write.",
        ) from error


def refusal(folder: Path, file: str, effects: Mapping[str, str]) -> str:
    """Return the one line about settings that were passed over; `effects` is by setting."""
    from rerail.platform.os_text import shown

    parts = []
    for effect in EFFECTS:
        names = [name for name, its in effects.items() if its == effect]
        if names:
            verb, _, rest = effect.partition(" ")
            does = f"{verb}s {rest}" if len(names) == 1 else effect
            parts.append(f"{_joined(names)}, which {does}")
    it = "it" if len(effects) == 1 else "them"
    return shown(
        f"{file} sets {'; '.join(parts)}: not used; type `rerail config --allow` in {folder}"
        f" to allow {it}"
    )


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _path_of(state: Path, folder: Path) -> Path:
    """One file for each folder, so that two shells that allow at once do not undo each other."""
    import hashlib

    return state / "allowed" / hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()


def _record(folder: Path, settings: Sequence[Setting]) -> bytes | None:
    """Return what a permission consists of; None if a value cannot be written down."""
    import hashlib
    import json

    values = [[setting.name, setting.command, setting.value] for setting in settings]
    try:
        text = json.dumps(values, default=repr)  # TOML also has dates
    except (ValueError, RecursionError):  # a number of thousands of digits; lists in lists
        return None
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{digest} ".encode() + os.fsencode(folder.resolve()) + b"\n"
