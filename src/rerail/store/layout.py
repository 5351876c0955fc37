"""Where things lie in a store and in a run folder, and who may read them.

The names of docs/run-folder.md, in one place; making ids and folders; atomic replacement of a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from pathlib import Path

from rerail.store.regular_files import open_descriptor, open_own

SCHEMA = 1

RUNS = "runs"
INDEX = "index.sqlite"
SIZES = "sizes.jsonl"

RUN = "run.json"
SURROUNDINGS = "surroundings.json"
EVENTS = "events.jsonl"
OUTPUT = "output.log"
OUTPUT_INDEX = "output.index.jsonl"
VITALS = "vitals.jsonl"
VITALS_RECENT = "vitals.recent.jsonl"
VITALS_RECENT_OLD = "vitals.recent.old.jsonl"
MAPS = "maps"
STALLS = "stalls.jsonl"
PROGRESS = "progress.jsonl"  # read from the output
STEPS = "steps.jsonl"  # read from the black boxes
AGENT = "agent"
CRASHES = "crashes.json"
AFTER = "after.json"
DIAGNOSIS = "diagnosis.json"
PRIVATE = "private.jsonl"  # the command as it was typed, and what the masks stand for
RESERVE = "reserve"  # space set aside for the last words on a full disk

FILES_PER_RUN = 24  # of a short run with a few processes; each process adds a few more

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
_TAIL = re.compile(r"output\.tail-([0-9]{1,9})\.log")


def new_run_id(unix_seconds: float) -> str:
    """UTC start time and four random hex digits: sorts by age, needs no counter."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(unix_seconds)) + os.urandom(2).hex()


def is_run_id(name: str) -> bool:
    """Whether rerail may have made a folder of this name; what else lies there is the user's."""
    return _RUN_ID.fullmatch(name) is not None


def tail_name(number: int) -> str:
    return f"output.tail-{number}.log"


def tail_number(name: str) -> int | None:
    found = _TAIL.fullmatch(name)
    return int(found[1]) if found else None


def make_folder(path: Path) -> None:
    """Like mkdir -p, and private whatever the umask says."""
    if path.is_dir():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError as error:
        if path.is_dir():
            return
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", error.filename) from None
    path.chmod(FOLDER_MODE)


def keep_out_of_git(home: Path) -> None:
    """Write a `.gitignore` that covers the whole store, unless there is one already.

    Without it, `git add -A` would add `private.jsonl`. If this fails, the run is recorded anyway.
    """
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(home / ".gitignore", flags, FILE_MODE)
        try:
            write_all(descriptor, b"*\n")
        finally:
            os.close(descriptor)


def keep_diagnosis(run: Path, document: str) -> None:
    """Also without room for it: it can be made again from the rest."""
    with contextlib.suppress(OSError):
        replace_file(run / DIAGNOSIS, document.encode() + b"\n")


def replace_file(path: Path, data: bytes, mode: int = FILE_MODE) -> None:
    """Write beside, fsync, rename: a reader sees the old text or the new one, never a half."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()  # of an earlier process with our number; or a link somewhere else
        descriptor = open_descriptor(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            if mode != FILE_MODE:
                os.fchmod(descriptor, mode)
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
    except OSError:
        try:
            beside.unlink()
        except OSError:
            pass
        raise


def overwrite_file(path: Path, data: bytes) -> None:
    """In place: for the last words on a disk where no file can be made any more."""
    descriptor = open_own(path, os.O_WRONLY)
    try:
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def sync_folder(path: Path) -> None:
    """Make new names in this folder survive a power cut, where the file system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
