"""Where the nodes of a job leave their records: a shared folder, or a store that fsspec reaches.

In: a folder or a URL. Out: a `Place` to write, read and list small files in. Promises: a file in a
folder is replaced as a whole or not at all; a call to a store ends within its time; what goes wrong
is an OSError that says so. Nothing is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
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

    def signs(self, kind: str = "") -> list[str]:
        """Names of the signs of life, of one kind or of all: `NODE/RUN.KIND.json`."""

    def age_seconds(self, name: str) -> float | None:
        """How long ago it was written, by the clock of the store and of this machine."""


def open_place(where: str | Path, below: str = "") -> Place:
    """UsageError for a URL that nothing here can reach. A store may be reached for already."""
    folder = _folder(where)
    if folder is not None:
        return FolderPlace(folder / below)
    return StorePlace(f"{str(where).rstrip('/')}/{below}".rstrip("/"))


def name_place(where: str | Path, below: str = "") -> str:
    """As a person names it. UsageError as `open_place` has it; nothing is reached for."""
    folder = _folder(where)
    if folder is not None:
        return str(folder / below)
    text = f"{str(where).rstrip('/')}/{below}".rstrip("/")
    _package_of(text)
    return _without_secrets(text)


def _folder(where: str | Path) -> Path | None:
    """None for a URL of a store."""
    text = str(where)
    try:
        if "://" not in text:
            return Path(text).expanduser().absolute()
        parts = urlsplit(text)
        return Path(parts.path) if parts.scheme == "file" else None
    except (RuntimeError, ValueError) as error:  # ~nobody; a bracket in the name of a host
        raise UsageError(
            f"{text} is no place for a job: {error}", "Name another: --job-dir DIR, or a URL"
        ) from None


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _package_of(url: str) -> Any:
    """fsspec, which has a package for this kind of store."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            f"{_without_secrets(url)} needs fsspec, which is not installed",
            f"Install it: {INSTALL}",
        ) from None
    try:
        fsspec.get_filesystem_class(urlsplit(url).scheme)
    except Exception as error:
        raise _unusable(url, error) from None
    return fsspec


def _unusable(url: str, error: Exception) -> UsageError:
    why = str(error).partition("\n")[0][:200]
    return UsageError(f"{_without_secrets(url)} cannot be used: {why}", f"Install it: {INSTALL}")


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

    def signs(self, kind: str = "") -> list[str]:
        found = islice(self.folder.glob(f"*/*{kind}.json"), _MOST_FILES)
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def age_seconds(self, name: str) -> float | None:
        try:
            return time.time() - (self.folder / name).stat().st_mtime
        except OSError:
            return None


class StorePlace:
    """Any file system that fsspec knows: s3://, gs://, abfs://, memory://."""

    def __init__(self, url: str) -> None:
        self._shown = _without_secrets(url)
        fsspec = _package_of(url)
        options = _options(urlsplit(url).scheme)
        try:
            self._system, self._root = fsspec.core.url_to_fs(url, **options)
        except OSError:
            raise
        except Exception as error:
            raise _unusable(url, error) from None

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
        data: bytes = self._do("cat_file", self._path(name), start=0, end=most_bytes + 1)
        if len(data) > most_bytes:
            raise OSError(f"{name} is larger than {most_bytes} bytes")
        return data

    def files(self, below: str = "") -> Iterator[tuple[str, int]]:
        self._system.invalidate_cache()
        found: dict[str, Any] = self._do("find", self._path(below), detail=True)
        for path, details in sorted(found.items())[:_MOST_FILES]:
            name = path.removeprefix(str(self._root).lstrip("/")).removeprefix(str(self._root))
            yield name.lstrip("/"), int(details.get("size") or 0)

    def signs(self, kind: str = "") -> list[str]:
        ending = f"{kind}.json"
        names = (name for name, _ in self.files())
        return [name for name in names if name.count("/") == 1 and name.endswith(ending)]

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
