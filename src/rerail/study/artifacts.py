"""Collecting what a cell made: whole, by one atomic move, under its own name, with checksums.

In: a working folder that no process writes any more, and the globs of the study. Out:
`results/CELL/` with the files and `rerail-cell.json`, which names each with its size and SHA-256.
Promises: the folder appears complete or not at all (it is filled beside, flushed to the disk, and
renamed); a folder that is there already is never overwritten; until the move is on record the files
are also still where the cell wrote them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.errors import RerailError
from rerail.store import DecodeError, dumps, fits, layout, loads, read_regular
from rerail.study.completeness import what_is_wrong
from rerail.study.journal_fields import JOURNAL_FIELDS

MANIFEST = "rerail-cell.json"
MOST_MANIFEST_BYTES = 16 << 20
SCHEMA = 1
_STAGING = ".collecting-"
_BLOCK = 1 << 20


class ResultsInTheWay(RerailError):
    """Where a cell's results belong there is something that this study did not write."""


class StillChanging(Exception):
    """A file changed while it was collected."""


@dataclass(frozen=True)
class Collected:
    path: str
    size_bytes: int
    sha256: str


def find_files(work: Path, globs: Sequence[str]) -> list[Path]:
    """Files that the globs name; a folder stands for all that is in it. Inputs are not ours."""
    found: set[Path] = set()
    for pattern in globs:
        for path in work.glob(pattern):
            inside = [path] if not path.is_dir() or path.is_symlink() else path.rglob("*")
            found |= {each for each in inside if each.is_file() and _is_own(each, work)}
    return sorted(found)


def complaints(work: Path, globs: Sequence[str]) -> list[str]:
    """What is missing or cut; empty when the cell is complete."""
    found = []
    for pattern in globs:
        files = find_files(work, [pattern])
        if not files:
            found.append(f"there is no {pattern}")
        for path in files:
            problem = what_is_wrong(path)
            if problem:
                found.append(f"{path.relative_to(work)}: {problem}")
    return found


def collect(
    work: Path, target: Path, globs: Sequence[str], facts: dict[str, Any]
) -> list[Collected]:
    """Move the files to `target`, all at once."""
    files = find_files(work, globs)
    staging = target.with_name(f"{_STAGING}{target.name}")
    _remove(staging)
    staging.mkdir(parents=True)
    collected = []
    for path in files:
        relative = path.relative_to(work)
        (staging / relative).parent.mkdir(parents=True, exist_ok=True)
        collected.append(_take(path, staging / relative, relative))
    manifest = {"schema": SCHEMA, **facts, "files": [vars(each) for each in collected]}
    layout.replace_file(staging / MANIFEST, dumps(manifest, indent=1).encode() + b"\n")
    for where, _, _ in os.walk(staging):
        layout.sync_folder(Path(where))
    try:
        staging.rename(target)  # onto a folder with anything in it this fails: nothing is lost
    except OSError as error:
        _remove(staging)
        raise ResultsInTheWay(
            f"cannot put results into {target}: {error.strerror}",
            "Move what is there away, and start the study again.",
        ) from None
    layout.sync_folder(target.parent)
    return collected


def forget_originals(work: Path, target: Path, files: Sequence[dict[str, Any]]) -> None:
    """Complete the move: what was collected is no longer in the working folder."""
    for each in files:
        original, kept = work / str(each["path"]), target / str(each["path"])
        try:
            if original.is_symlink() or original.samefile(kept) or _is_equal(original, each):
                original.unlink()
        except OSError:
            continue
    for where, _, _ in sorted(os.walk(work), reverse=True):
        try:
            Path(where).rmdir()  # only if nothing is left in it
        except OSError:
            continue


def read_manifest(target: Path) -> dict[str, Any] | None:
    """What was collected here; None if this is not a folder of ours."""
    try:
        value = loads(read_regular(target / MANIFEST, MOST_MANIFEST_BYTES))
    except (OSError, DecodeError):
        return None
    is_ours = isinstance(value, dict) and value.get("schema") == SCHEMA
    return value if is_ours and fits(JOURNAL_FIELDS["files"], value.get("files")) else None


def what_is_missing(target: Path) -> list[str]:
    """Return a sentence for each collected file that is gone or was changed.

    Content is compared where a file is younger than the list of them: reading all of it would take
    minutes for hundreds of gigabytes.
    """
    manifest = read_manifest(target)
    if manifest is None:
        return [f"{target} is gone"]
    found = []
    listed_ns = (target / MANIFEST).stat().st_mtime_ns
    for each in manifest["files"]:
        path = target / str(each["path"])
        try:
            status = path.stat()
            is_same = status.st_size == each["size_bytes"]
            if is_same and status.st_mtime_ns > listed_ns:
                is_same = sha256_of(path) == each["sha256"]
        except OSError:
            is_same = False
        if not is_same:
            found.append(f"{path} is gone or was changed")
    return found


def sweep_staging(results: Path) -> None:
    """What a killed study had begun to collect; the originals are still where they were."""
    for path in results.glob(f"{_STAGING}*"):
        _remove(path)


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _take(path: Path, target: Path, relative: Path) -> Collected:
    before = path.stat()
    try:
        if path.is_symlink():
            raise OSError("a link is collected as what it points to")
        os.link(path, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, target)
        shutil.copystat(path, target)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    digest = sha256_of(target)
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise StillChanging(f"{relative} changed while it was collected")
    return Collected(str(relative), after.st_size, digest)


def _is_own(path: Path, work: Path) -> bool:
    """Not a link to an input, which belongs to everybody."""
    try:
        return path.resolve().is_relative_to(work.resolve())
    except OSError:
        return False


def _is_equal(path: Path, recorded: dict[str, Any]) -> bool:
    if path.stat().st_size != recorded["size_bytes"]:
        return False
    return bool(sha256_of(path) == recorded["sha256"])


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
