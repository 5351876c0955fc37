"""The environment of a command: its interpreter, what is installed there, what it would import.

In: a command (or none: the Python that is active here), folder, variables. Out: a `Target`, all
that the findings are made from. Promises: nothing of the target is run or imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rerail.platform.distributions import (
    Distribution,
    installed,
    normalised,
    split_requirement,
)
from rerail.platform.interpreter import Interpreter, find_interpreter
from rerail.preflight.audit.program import Program, read_program
from rerail.recorder import surroundings

# Imported at the top of the package where it is installed, and not among its requirements.
_IMPORTS_IF_THERE = {
    "torch": ("numpy",),
    "transformers": ("torch",),
    "accelerate": ("torch",),
    "lightning": ("torch",),
    "pytorch-lightning": ("torch",),
    "scikit-image": ("scipy",),
}


@dataclass
class Target:
    command: tuple[str, ...]
    cwd: Path
    environ: Mapping[str, str]
    surroundings: Mapping[str, Any]
    interpreter: Interpreter | None = None
    distributions: dict[str, Distribution] = field(default_factory=dict)
    program: Program = field(default_factory=Program)

    @cached_property
    def missing_interpreter(self) -> str:
        """Where the command's first word leads, if that is nowhere: a broken environment."""
        path = self.cwd / self.command[0] if self.command and "/" in self.command[0] else None
        if path is None or not path.is_symlink() or path.exists():
            return ""
        return str(path.resolve())

    @property
    def has_program(self) -> bool:
        return bool(self.program.files)

    @cached_property
    def imported(self) -> dict[str, Distribution]:
        """What would be loaded: imported packages and what they require; else all installed."""
        if not self.has_program:
            return dict(self.distributions)
        by_module: dict[str, list[Distribution]] = {}
        for distribution in self.distributions.values():
            for module in distribution.modules:
                by_module.setdefault(module, []).append(distribution)
        found: dict[str, Distribution] = {}
        waiting = [d for name in self.program.imports for d in by_module.get(name, ())]
        while waiting:
            distribution = waiting.pop()
            if distribution.key in found:
                continue
            found[distribution.key] = distribution
            for requirement in distribution.requires:
                name, _, marker = split_requirement(requirement)
                needed = self.distributions.get(normalised(name))
                if needed is not None and "extra" not in marker:
                    waiting.append(needed)
            for name in _IMPORTS_IF_THERE.get(distribution.key, ()):
                waiting += [self.distributions[name]] if name in self.distributions else []
        return found

    def version_of(self, name: str) -> str | None:
        found = self.distributions.get(normalised(name))
        return found.version if found else None

    def who_imports(self, module: str) -> str:
        return self.program.imports.get(module, "")

    @property
    def python(self) -> tuple[int, int] | None:
        found = re.match(
            r"(\d{1,4})\.(\d{1,4})", (self.interpreter and self.interpreter.version) or ""
        )
        return (int(found[1]), int(found[2])) if found else None


def find_target(command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> Target:
    around = surroundings.collect(list(command), cwd, environ, {})
    interpreter = find_interpreter(list(command), cwd, environ) if command else None
    if not command:
        interpreter = active_interpreter(cwd, environ)
    folders = interpreter.site_packages if interpreter else []
    target = Target(tuple(command), cwd, environ, around, interpreter)
    target.distributions = installed(folders)
    if command:
        target.program = read_program(command, cwd, environ, folders)
    return target


def active_interpreter(cwd: Path, environ: Mapping[str, str]) -> Interpreter | None:
    """The Python of the active environment; rerail's own where none is active."""
    for candidate in (
        f"{environ['VIRTUAL_ENV']}/bin/python" if environ.get("VIRTUAL_ENV") else "",
        f"{environ['CONDA_PREFIX']}/bin/python" if environ.get("CONDA_PREFIX") else "",
        "python",
        "python3",
        sys.executable,
    ):
        found = find_interpreter([candidate], cwd, environ) if candidate else None
        if found is not None:
            return found
    return None
