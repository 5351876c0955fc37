"""All cause files as one JSON document, because parsing them takes a quarter of a second.

`compiled.json` lies beside this module. It is made when the package is built, and made anew by
the first start after a cause was edited, where this folder may be written to. It carries a digest
of the cause files and of the modules that read them, and counts only if that is the digest of what
is on disk: a stale copy can slow a start but never change an answer. It is read only if it is a
plain file of bounded size that belongs to whoever owns this module, or to us: who can write it can
write the module as well. A built package has no cause files beside it; there it may also be a link,
which is how some installers lay out every file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "compiled.json"
_MOST_BYTES = 16 << 20
# What the document was made by: a change of the rules makes it stale too.
_MADE_BY = (
    "compiled.py",
    "literals.py",
    "message_fixes.py",
    "model.py",
    "schema.py",
    "what_where.py",
)


def digest(files: Sequence[Path]) -> str:
    content = hashlib.blake2b(digest_size=16)
    for path in (*files, *(Path(__file__).with_name(name) for name in _MADE_BY)):
        data = path.read_bytes()
        content.update(f"{path.parent.name}/{path.name} {len(data)}\n".encode())
        content.update(data)
    return content.hexdigest()


def document_of(tables: Sequence[dict[str, Any]], wanted: str) -> str:
    document = {"digest": wanted, "causes": tables}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def read_compiled(
    path: Path, wanted: str, *, is_all_there_is: bool = False
) -> list[dict[str, Any]] | None:
    """The tables, if the document is there, may be trusted and has the wanted digest."""
    try:
        document = json.loads(_read(path.resolve() if is_all_there_is else path))
        causes = document["causes"] if document["digest"] == wanted else None
        return causes if isinstance(causes, list) else None
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
