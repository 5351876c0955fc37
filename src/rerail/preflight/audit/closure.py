"""Which native libraries the imported packages would load, and who brings which.

In: distributions and libraries that the program names itself. Out: a `Closure`. As the dynamic
loader does it: from each extension module through DT_NEEDED, looked up in RUNPATH, LD_LIBRARY_PATH
and the system's folders. Promises: loads nothing; a file that cannot be read is listed, not fatal.
docs/design/what-would-be-loaded.md says what this leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rerail.platform import mach_o
from rerail.platform.distributions import NATIVE, Distribution
from rerail.platform.elf_dynamic import Links, NotElf, read_links
from rerail.platform.patterns import linear

_EXTENSION = linear(r"\.(?:cpython-\d+[\w-]*|abi3|pypy\d+[\w-]*)\.so$")
_TRUSTED = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
_VERSIONED = linear(r"\.cpython-(\d)(\d+)t?-")
_MOST_FILES = 8000


@dataclass
class Closure:
    """`brought_by[path]` names who leads to a library; roots are importable modules."""

    brought_by: dict[str, set[str]] = field(default_factory=dict)
    links: dict[str, Links] = field(default_factory=dict)
    missing: dict[tuple[str, str], str] = field(default_factory=dict)  # (file, wanted): by whom
    unreadable: dict[str, str] = field(default_factory=dict)
    present: dict[str, str] = field(default_factory=dict)  # native files that nothing leads to
    named: set[str] = field(default_factory=set)  # loaded by path: never folded into another


def close_over(
    distributions: Mapping[str, Distribution],
    environ: Mapping[str, str],
    prefix: str | None = None,
    named: Mapping[str, str] | None = None,
    elsewhere: Iterable[Distribution] = (),
) -> Closure:
    """`named` are libraries by path with who names them; `elsewhere` is what is only installed."""
    closure = Closure()
    search = _Search(environ, prefix, distributions.values())
    for distribution in distributions.values():
        for path in distribution.native:
            if _is_root(path):
                _walk(closure, search, path, distribution.name)
    for path, who in (named or {}).items():
        closure.named.add(os.path.realpath(path))
        _walk(closure, search, path, who)
    for distribution in (*distributions.values(), *elsewhere):
        for path in distribution.native:
            real = os.path.realpath(path)
            if real not in closure.brought_by:
                closure.present.setdefault(real, distribution.name)
    return closure


def _is_root(path: str) -> bool:
    """An extension module by its name: what `import` would load."""
    if _EXTENSION.search(path):
        return True
    stem, dot, rest = path.rpartition("/")[2].partition(".")
    return rest == "so" and bool(dot) and stem.isidentifier() and not stem.startswith("lib")


def _walk(closure: Closure, search: _Search, root: str, who: str) -> None:
    waiting = [os.path.realpath(root)]
    while waiting:
        path = waiting.pop()
        known = closure.brought_by.setdefault(path, set())
        if who in known:
            continue
        known.add(who)
        links = _links(closure, path)
        if links is None:
            continue
        for wanted in links.needed:
            found = search.find(wanted, path, links)
            if found is None:
                closure.missing.setdefault((path, wanted), who)
            elif found:
                waiting.append(found)


def _links(closure: Closure, path: str) -> Links | None:
    if path in closure.links:
        return closure.links[path]
    if path in closure.unreadable or len(closure.links) >= _MOST_FILES:
        return None
    try:
        links = mach_o.read_links(path) if mach_o.is_mach_o(path) else read_links(path)
    except NotElf as error:
        closure.unreadable[path] = str(error)
        return None
    closure.links[path] = links
    return links


class _Search:
    """The loader's search, and what other packages would have loaded before."""

    def __init__(
        self,
        environ: Mapping[str, str],
        prefix: str | None,
        distributions: Iterable[Distribution],
    ) -> None:
        self._first = [part for part in environ.get("LD_LIBRARY_PATH", "").split(":") if part]
        self._system = _system_folders()
        self._prefix = [f"{prefix}/lib"] if prefix else []
        # torchvision's module needs libtorch.so and says not where: torch has loaded it before.
        self._brought = {
            path.rpartition("/")[2]: os.path.realpath(path)
            for distribution in distributions
            for path in distribution.native
        }
        self._found: dict[tuple[str, tuple[str, ...]], str | None] = {}

    def find(self, wanted: str, by: str, links: Links) -> str | None:
        """A path; "" for what is the system's own business; None where there is none."""
        if wanted.startswith(("ld-linux", "linux-vdso", "/usr/lib/", "/System/")):
            return ""
        origin = by.rpartition("/")[0]
        folders = tuple(
            part.replace("$ORIGIN", origin)
            .replace("${ORIGIN}", origin)
            .replace("@loader_path", origin)
            for part in links.search
        )
        if wanted.startswith(("@loader_path/", "@rpath/", "@executable_path/")):
            folders = (origin, *folders) if wanted.startswith("@loader_path/") else folders
            wanted = wanted.partition("/")[2]
        key = (wanted, folders)
        if key not in self._found:
            self._found[key] = self._look(wanted, folders)
        return self._found[key]

    def _look(self, wanted: str, folders: Sequence[str]) -> str | None:
        if wanted.startswith("/"):
            return os.path.realpath(wanted) if os.path.exists(wanted) else None  # noqa: PTH110
        for folder in (*folders, *self._first, *self._system):
            path = f"{folder}/{wanted}"
            if os.path.isfile(path):  # noqa: PTH113 - thousands of times
                return os.path.realpath(path)
        if wanted in self._brought:
            return self._brought[wanted]
        for folder in self._prefix:  # the interpreter's own RPATH leads there, as in conda
            path = f"{folder}/{wanted}"
            if os.path.isfile(path):  # noqa: PTH113
                return os.path.realpath(path)
        return None


def _system_folders() -> list[str]:
    """Where ld.so looks by itself, from its configuration."""
    found: list[str] = []
    waiting = ["/etc/ld.so.conf"]
    while waiting:
        try:
            text = Path(waiting.pop(0)).read_text(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            line = line.partition("#")[0].strip()
            if line.startswith("include"):
                pattern = line.partition(" ")[2].strip()
                waiting += sorted(map(str, Path("/").glob(pattern.lstrip("/"))))
            elif line.startswith("/"):
                found.append(line)
    return [folder for folder in (*found, *_TRUSTED) if os.path.isdir(folder)]  # noqa: PTH112


def built_for(path: str) -> tuple[int, int] | None:
    """The Python that an extension module says in its name that it is for."""
    found = _VERSIONED.search(path)
    return (int(found[1]), int(found[2])) if found else None


def library_files(folder: str) -> list[str]:
    """Native files directly in a folder: a prefix's lib/."""
    try:
        return sorted(e.path for e in os.scandir(folder) if NATIVE.search(e.name) and e.is_file())
    except OSError:
        return []
