"""The user's own environment: which Python, which packages, what of them a copy has to carry.

In: a command. Out: an `OwnEnvironment`, or a sentence on why it cannot be copied. Promises: nothing
in it is run or written.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rerail.experiments.environments.uv import EnvironmentNotBuilt
from rerail.platform.distributions import Distribution, installed, normalised
from rerail.platform.interpreter import Interpreter, find_interpreter


@dataclass(frozen=True)
class OwnEnvironment:
    interpreter: Interpreter
    prefix: Path
    folders: tuple[Path, ...]  # with packages, the first wins

    @cached_property
    def packages(self) -> dict[str, Distribution]:
        """By normalised name."""
        return installed([str(folder) for folder in self.folders])

    @cached_property
    def sources(self) -> dict[str, dict[str, object]]:
        """`direct_url.json` of packages that came from no index, by normalised name."""
        found: dict[str, dict[str, object]] = {}
        for folder in self.folders:
            for file in sorted(folder.glob("*.dist-info/direct_url.json")):
                name = normalised(file.parent.name.partition("-")[0])
                try:
                    document = json.loads(file.read_bytes())
                except (OSError, ValueError):
                    continue
                if isinstance(document, dict):
                    found.setdefault(name, document)
        return found

    @property
    def editable(self) -> list[str]:
        """Packages that are links into a project's folder."""
        return [name for name, source in self.sources.items() if _is_editable(source)]

    def frozen(self) -> dict[str, str]:
        """A requirement for each package that gives this very version; links are left out."""
        lines = {}
        for name, package in self.packages.items():
            source = self.sources.get(name)
            if source is not None and _is_editable(source):
                continue
            lines[name] = _from_source(package, source) or f"{package.name}=={package.version}"
        return lines

    @cached_property
    def identity(self) -> str:
        """Changes with the interpreter, a version or a source."""
        told = [self.interpreter.real_path, [str(folder) for folder in self.folders]]
        text = json.dumps([*told, sorted(self.frozen().items()), sorted(self.editable)])
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def files_of(self, name: str) -> dict[str, int]:
        """Paths of a package with their sizes, by its own list, and caches of its modules.

        Of a package without a list: what its modules are named after.
        """
        found: dict[str, int] = {}
        package = self.packages.get(name)
        folder = package.folder if package else ""
        for info in Path(folder).glob("*.dist-info") if package else ():
            if normalised(info.name.partition("-")[0]) != name or not (info / "RECORD").is_file():
                continue
            text = (info / "RECORD").read_text(errors="replace")
            for row in filter(None, csv.reader(text.splitlines())):
                path, size = row[0], row[-1]
                whole = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - thousands
                found[whole] = int(size) if size.isdecimal() else 0
                if path.endswith(".py") and "/" in path:
                    found.setdefault(f"{os.path.dirname(whole)}/__pycache__", 0)  # noqa: PTH120
        if package and not found:
            names = [f"{folder}/{module}" for module in package.modules]
            found = dict.fromkeys([*names, *(f"{each}.py" for each in names)], 0)
        return found

    def package_for(self, name: str) -> Distribution | None:
        """The package of this name, or the one that brings the module of this name."""
        if name in self.packages:
            return self.packages[name]
        for package in self.packages.values():
            if name.replace("-", "_") in {module.lower() for module in package.modules}:
                return package
        return None


def find_own(command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> OwnEnvironment:
    found = find_interpreter(command, cwd, environ)
    if found is None or found.prefix is None or not found.site_packages:
        raise EnvironmentNotBuilt("which Python the command runs in cannot be told from outside")
    prefix = Path(found.prefix)
    if (prefix / "conda-meta").is_dir():
        # Their native files look for libraries in PREFIX/lib, which a copy does not have.
        raise EnvironmentNotBuilt(
            f"{prefix} is a conda environment, which rerail cannot copy"
            " (conda create --clone does, and the command can be run from the copy)"
        )
    folders = [Path(folder) for folder in found.site_packages]
    user = _user_site(found, prefix, environ)
    return OwnEnvironment(found, prefix, tuple([user, *folders] if user else folders))


def _user_site(found: Interpreter, prefix: Path, environ: Mapping[str, str]) -> Path | None:
    """~/.local, which an interpreter outside of virtual environments looks at first."""
    if (prefix / "pyvenv.cfg").exists() or environ.get("PYTHONNOUSERSITE") or not found.version:
        return None
    base = environ.get("PYTHONUSERBASE") or Path(environ.get("HOME") or Path.home()) / ".local"
    minor = ".".join(found.version.split(".")[:2])
    folder = Path(base) / "lib" / f"python{minor}" / "site-packages"
    return folder if folder.is_dir() else None


def _is_editable(source: dict[str, object]) -> bool:
    folder = source.get("dir_info")
    return isinstance(folder, dict) and folder.get("editable") is True


def _from_source(package: Distribution, source: dict[str, object] | None) -> str | None:
    """A wheel or archive that is still there, or a commit."""
    url = source.get("url") if source else None
    if not source or not isinstance(url, str) or "dir_info" in source:
        return None
    if url.startswith("file://") and not os.path.exists(url.removeprefix("file://")):  # noqa: PTH110
        return None
    version = source.get("vcs_info")
    if isinstance(version, dict) and version.get("commit_id"):
        url = f"{version.get('vcs')}+{url}@{version['commit_id']}"
    return f"{package.name} @ {url}"
