"""What is installed for an interpreter, with the files that matter before a run.

In: site-packages folders. Out: one `Distribution` per installed package: what it needs, which names
it makes importable, which native files it brings, for which Python it was built. Promises: reads
metadata that installers leave (METADATA, RECORD, WHEEL); imports nothing; a package whose metadata
cannot be read is kept with what its folder's name says, and says so in `problem`, which
`importlib.metadata` cannot: it passes such a package over or raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.platform.patterns import linear

NATIVE = linear(r"\.(?:so(?:\.[\w.]+)?|dylib)$")
_REQUIREMENT = linear(r"^([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;(.*))?$")
_HEADER_BYTES = 256 << 10
_RECORD_BYTES = 16 << 20


@dataclass(frozen=True)
class Distribution:
    name: str
    version: str
    folder: str  # the site-packages that it is in
    requires: tuple[str, ...] = ()
    modules: frozenset[str] = frozenset()  # top-level names
    native: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # of the wheel: cp311-cp311-manylinux_2_28_x86_64
    problem: str = ""

    @property
    def key(self) -> str:
        return normalised(self.name)

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def split_requirement(text: str) -> tuple[str, str, str]:
    """Name, version specifiers, marker of a Requires-Dist line."""
    found = _REQUIREMENT.match(text.strip())
    if found is None:
        return "", "", ""
    return found[1], (found[2] or "").strip("() "), (found[3] or "").strip()


def installed(folders: Sequence[str]) -> dict[str, Distribution]:
    """By normalised name; the first folder wins, as on the import path."""
    found: dict[str, Distribution] = {}
    for folder in folders:
        try:
            entries = sorted(entry.path for entry in os.scandir(folder))
        except OSError:
            continue
        for path in entries:
            if path.endswith((".dist-info", ".egg-info")):
                distribution = _read(Path(path), folder)
                found.setdefault(distribution.key, distribution)
    return found


def _read(info: Path, folder: str) -> Distribution:
    stem_name, _, stem_version = info.name.rsplit(".", 1)[0].partition("-")
    stem_version = stem_version.partition("-py")[0]
    metadata = info / "METADATA" if info.suffix == ".dist-info" else info / "PKG-INFO"
    problem = ""
    try:
        head = _head(info if info.is_file() else metadata)
    except OSError as error:
        head, problem = "", f"{error.filename or metadata}: {error.strerror or error}"
    fields = _fields(head)
    if not problem and "name" not in fields:
        problem = f"{info if info.is_file() else metadata}: it names no package"
    files = list(_recorded(info, folder))
    modules = _modules(files, folder) or _listed_modules(info) or {stem_name.replace("-", "_")}
    return Distribution(
        name=fields.get("name", [stem_name])[0],
        version=fields.get("version", [stem_version])[0],
        folder=folder,
        requires=tuple(fields.get("requires-dist", ())),
        modules=frozenset(modules),
        native=tuple(sorted(path for path in files if NATIVE.search(path))),
        tags=tuple(_fields(_text_or_empty(info / "WHEEL")).get("tag", ())),
        problem=problem,
    )


def _head(path: Path) -> str:
    with path.open("rb") as file:
        raw = file.read(_HEADER_BYTES)
    return raw.decode(errors="replace").replace("\r\n", "\n").partition("\n\n")[0]


def _text_or_empty(path: Path) -> str:
    try:
        return _head(path)
    except OSError:
        return ""


def _fields(head: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in head.split("\n"):
        name, colon, value = line.partition(":")
        if colon and not line[:1].isspace():
            found.setdefault(name.strip().lower(), []).append(value.strip())
    return found


def _recorded(info: Path, folder: str) -> Iterator[str]:
    """Full paths of the files of a package; without a RECORD, those of its folder."""
    for name in ("RECORD", "installed-files.txt"):
        base = folder if name == "RECORD" else str(info)
        try:
            with (info / name).open("rb") as file:
                text = file.read(_RECORD_BYTES).decode(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            path = line[1:].partition('"')[0] if line[:1] == '"' else line.partition(",")[0]
            if path.endswith(".py") or NATIVE.search(path):
                yield os.path.normpath(os.path.join(base, path))  # noqa: PTH118 - thousands
        return
    for module in _listed_modules(info) or {info.name.partition("-")[0]}:
        yield from _walked(Path(folder) / module)


def _walked(folder: Path) -> Iterator[str]:
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py") or NATIVE.search(name):
                yield f"{where}/{name}"


def _listed_modules(info: Path) -> set[str]:
    try:
        return set((info / "top_level.txt").read_text(errors="replace").split())
    except OSError:
        return set()


def _modules(files: Iterable[str], folder: str) -> set[str]:
    found = set()
    for path in files:
        if path.startswith(folder + "/"):
            first, slash, _ = path[len(folder) + 1 :].partition("/")
            name = first if slash else first.partition(".")[0]
            if name.isidentifier():
                found.add(name)
    return found
