"""A command that runs in another environment than it was written for.

In: the words of a command, the user's own environment, the folder of another. Out: the words with
the interpreter (or console script) replaced, and the variables that make the programs it starts
find the same environment. Where no word names the interpreter (a shell script), the variables
alone do it, and `is_by_path` says so: then it has to be seen whether it worked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.platform.command_line import innermost_at, is_python
from rerail.platform.interpreter import shebang

_USED = "rerail-used"


@dataclass(frozen=True)
class Entered:
    command: tuple[str, ...]
    variables: dict[str, str]
    is_by_path: bool


def enter(command: Sequence[str], environ: Mapping[str, str], folder: Path) -> Entered:
    scripts = folder / "bin"
    path = environ.get("PATH", os.defpath)
    variables = {"PATH": f"{scripts}{os.pathsep}{path}", "VIRTUAL_ENV": str(folder)}
    words = list(command)
    at = innermost_at(words)
    if at >= len(words):
        return Entered(tuple(words), variables, is_by_path=True)
    python = str(scripts / "python")
    if is_python(words[at]):
        words[at] = python
        return Entered(tuple(words), variables, is_by_path=False)
    if words[at].endswith(".py") and at:  # `uv run train.py`
        return Entered((*words[:at], python, *words[at:]), variables, is_by_path=False)
    program = shutil.which(words[at], path=path)
    first = shebang(Path(program)) if program else None
    if program is None or first is None or not any(is_python(word) for word in first):
        return Entered(tuple(words), variables, is_by_path=True)
    script = scripts / Path(program).name
    if script.exists():  # torchrun and the like
        return Entered((*words[:at], str(script), *words[at + 1 :]), variables, is_by_path=False)
    return Entered((*words[:at], python, program, *words[at + 1 :]), variables, is_by_path=False)


def watch_use(folder: Path, site_packages: Path) -> None:
    """Have every Python that starts in the environment leave a file, wherever it was started."""
    line = f"import os; os.path.exists({str(folder / _USED)!r}) or"
    line += f" open({str(folder / _USED)!r}, 'w').close()\n"
    (site_packages / "rerail_used.pth").write_text(line)


def forget_use(folder: Path) -> None:
    (folder / _USED).unlink(missing_ok=True)


def was_used(folder: Path) -> bool:
    return (folder / _USED).exists()
