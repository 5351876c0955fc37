"""Does a command's interpreter look at PYTHONPATH? If not, the agent has to be preloaded.

Comes in: the command and the environment it will have. Goes out: the reason to preload, or None.
Promises: reads at most the first bytes of a script and the tables of one ELF file; when in doubt
the answer is None, since LD_PRELOAD belongs only where it is needed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rerail.platform.command_line import PythonCall, innermost, is_python, python_call


def needs_preload(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Why PYTHONPATH would not reach the interpreter of `command`; None if it would."""
    words = innermost(command)
    if not words:
        return None
    if is_python(words[0]):
        return _reason(python_call(words))
    program = _resolve(words[0], environ)
    if program is None:
        return None
    shebang = _shebang(program)
    if shebang:
        return _reason(python_call(innermost(shebang)))
    embedded = [name for name in needed_libraries(program) if name.startswith("libpython")]
    if embedded and not is_python(program.resolve().name):
        return f"{program.name} embeds {embedded[0]}"
    return None


def _reason(call: PythonCall | None) -> str | None:
    letter = next((letter for letter in call.flags if letter in "IES"), "") if call else ""
    return f"python -{letter} does not look at PYTHONPATH" if letter else None


def _resolve(name: str, environ: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=environ.get("PATH"))
    return Path(found) if found else None


def _shebang(program: Path) -> list[str]:
    try:
        with program.open("rb") as file:
            first = file.read(512)
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    return os.fsdecode(first[2:].split(b"\n", 1)[0]).split()


def needed_libraries(program: Path) -> list[str]:
    """DT_NEEDED of a 64-bit little-endian ELF file, [] for anything else."""
    from rerail.platform.elf import ElfFile, NotElf  # seldom asked: most commands name a Python

    try:
        with ElfFile(program) as elf:
            return list(elf.needed)
    except NotElf:
        return []
