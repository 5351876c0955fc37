"""Where the nodes of a job leave their records: a shared folder, or a store that fsspec reaches.

In: a folder or a URL. Out: a `Place` to write, read and list small files in. Promises: a file in a
folder is replaced as a whole or not at all; a call to a store ends within its time; what goes wrong
is an OSError that says so. Nothing is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from rerail.errors import UsageError
from rerail.store import layout, open_append, open_regular, read_regular

INSTALL = "pip install 'rerail[jobs]'"
_GROWS = (".jsonl", ".log")
_CHUNK_BYTES = 1 << 20
# Of one request to a store. A store that does not answer is tried again at the next beat.
_CONNECT_SECONDS = 4
_ANSWER_SECONDS = 10
_MOST_FILES = 200_000


class Place(Protocol):
    @property
    def shown(self) -> str:
        """As a person names it, without what is secret about it."""

    def write(self, name: str, data: bytes) -> None: ...

    def put(self, path: Path, name: str, most_bytes: int) -> None:
        """A copy of a file, or of its first bytes."""

    def read(self, name: str, most_bytes: int) -> bytes: ...

    def files(self, below: str = "") -> Iterator[tuple[str, int]]:
        """Names and sizes of all files, at any depth."""

    def age_seconds(self, name: str) -> float | None:
        """How long ago it was written, by the clock of the store and of this machine."""


def open_place(where: str | Path, below: str = "") -> Place:
    """UsageError for a URL that nothing here can reach."""
    text = str(where)
    parts = urlsplit(text)
    if "://" not in text:
        return FolderPlace(Path(text).expanduser().absolute() / below)
    if parts.scheme == "file":
        return FolderPlace(Path(parts.path) / below)
    return StorePlace(f"{text.rstrip('/')}/{below}".rstrip("/"))


class FolderPlace:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def shown(self) -> str:
        return str(self.folder)

    def write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        layout.make_folder(path.parent)
        layout.replace_file(path, data)

    def put(self, path: Path, name: str, most_bytes: int) -> None:
        target = self.folder / name
        layout.make_folder(target.parent)
        with open_regular(path) as source:
            there = target.stat().st_size if target.is_file() else 0
            if not target.name.endswith(_GROWS) or not there:
                layout.replace_file(target, source.read(most_bytes))
                return
            source.seek(there)
            descriptor = open_append(target)
            try:
                left = most_bytes - there
                while left > 0 and (data := source.read(min(left, _CHUNK_BYTES))):
                    layout.write_all(descriptor, data)
                    left -= len(data)
            finally:
                import os

                os.close(descriptor)

    def read(self, name: str, most_bytes: int) -> bytes:
        return read_regular(self.folder / name, most_bytes)

    def files(self, below: str = "") -> Iterator[tuple[str, int]]:
        for count, path in enumerate(sorted((self.folder / below).rglob("*"))):
            if count > _MOST_FILES:
                return
            with suppress(OSError):
                if path.is_file() and not path.is_symlink() and not path.name.endswith(".new"):
                    yield path.relative_to(self.folder).as_posix(), path.stat().st_size

    def age_seconds(self, name: str) -> float | None:
        try:
            return time.time() - (self.folder / name).stat().st_mtime
        except OSError:
            return None


class StorePlace:
    """Any file system that fsspec knows: s3://, gs://, abfs://, memory://."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        try:
            import fsspec
        except ImportError:
            raise UsageError(
                f"{self._shown} needs fsspec, which is not installed", f"Install it: {INSTALL}"
            ) from None
        try:
            self._system, self._root = fsspec.core.url_to_fs(url, **_options(parts.scheme))
        except (ImportError, ValueError) as error:
            why = str(error).partition("\n")[0][:200]
            raise UsageError(f"{self._shown} cannot be used: {why}", INSTALL) from None

    @property
    def shown(self) -> str:
        return self._shown

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def write(self, name: str, data: bytes) -> None:
        self._do("pipe_file", self._path(name), data)

    def put(self, path: Path, name: str, most_bytes: int) -> None:
        with open_regular(path) as source:
            self.write(name, source.read(most_bytes))

    def read(self, name: str, most_bytes: int) -> bytes:
        data: bytes = self._do("cat_file", self._path(name))
        if len(data) > most_bytes:
            raise OSError(f"{name} is larger than {most_bytes} bytes")
        return data

    def files(self, below: str = "") -> Iterator[tuple[str, int]]:
        self._system.invalidate_cache()
        found: dict[str, Any] = self._do("find", self._path(below), detail=True)
        for path, details in sorted(found.items())[:_MOST_FILES]:
            name = path.removeprefix(str(self._root).lstrip("/")).removeprefix(str(self._root))
            yield name.lstrip("/"), int(details.get("size") or 0)

    def age_seconds(self, name: str) -> float | None:
        try:
            return time.time() - float(self._do("modified", self._path(name)).timestamp())
        except (OSError, NotImplementedError, AttributeError):
            return None

    def _do(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Each store has errors of its own; here all are OSErrors."""
        try:
            return getattr(self._system, what)(*arguments, **options)
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {str(error)[:200]}") from None


def _options(scheme: str) -> dict[str, Any]:
    if scheme not in ("s3", "s3a"):
        return {}
    return {
        "config_kwargs": {
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": _ANSWER_SECONDS,
            "retries": {"max_attempts": 1},
        }
    }
