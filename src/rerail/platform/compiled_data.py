"""Many TOML files as one JSON document, because parsing them takes a quarter of a second.

In: the files, and the modules that read them. Out: their tables. The document lies beside the files
that it is made of. It is made when the package is built, and made anew by the first start after a
file was edited, where its folder may be written to. It carries a digest of the files and of those
modules, and counts only if that is the digest of what is on disk: a stale copy can slow a start but
never change an answer. It is read only if it is a plain file of bounded size that belongs to
whoever owns this module, or to us: who can write it can write the module as well. A built package
has no TOML files beside it; there it may also be a link, which is how some installers lay out every
file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "compiled.json"
_MOST_BYTES = 16 << 20


def digest(files: Sequence[Path], made_by: Sequence[Path]) -> str:
    """`made_by`: the modules that make the tables; a change of their rules makes it stale too."""
    content = hashlib.blake2b(digest_size=16)
    for path in (*files, *made_by, Path(__file__)):
        data = path.read_bytes()
        content.update(f"{path.parent.name}/{path.name} {len(data)}\n".encode())
        content.update(data)
    return content.hexdigest()


def document_of(tables: Sequence[dict[str, Any]], wanted: str) -> str:
    document = {"digest": wanted, "tables": tables}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def read_compiled(
    path: Path, wanted: str, *, is_all_there_is: bool = False
) -> list[dict[str, Any]] | None:
    """The tables, if the document is there, may be trusted and has the wanted digest."""
    try:
        document = json.loads(_read(path.resolve() if is_all_there_is else path))
        tables = document["tables"] if document["digest"] == wanted else None
        return tables if isinstance(tables, list) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _read(path: Path) -> bytes:
    # Opening must neither wait for a pipe nor follow a link.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in _trusted_owners():
            raise OSError(f"{path} is not a file of ours")
        if found.st_size > _MOST_BYTES:
            raise OSError(f"{path} is larger than {_MOST_BYTES} bytes")
        return file.read(_MOST_BYTES)


def _trusted_owners() -> set[int]:
    return {Path(__file__).stat().st_uid, os.geteuid()}


def parse_toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    table: dict[str, Any] = tomllib.loads(text)
    return table


def keep_compiled(path: Path, text: str) -> None:
    """Write it for the next start, or leave it: a start never fails of it."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o644)
    except OSError:
        return
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
