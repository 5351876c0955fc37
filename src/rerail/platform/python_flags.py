"""Does a command's interpreter look at PYTHONPATH? If not, the agent has to be preloaded.

Comes in: the command and the environment it will have. Goes out: the reason to preload, or None.
Promises: reads at most the first bytes of a script and the tables of one ELF file; when in doubt
the answer is None, since LD_PRELOAD belongs only where it is needed.
"""

from __future__ import annotations

import os
import shutil
import struct
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
    try:
        with program.open("rb") as file:
            return _needed(file.read(64), file)
    except (OSError, struct.error, ValueError, UnicodeDecodeError):
        return []


def _needed(header: bytes, file: object) -> list[str]:
    if header[:6] != b"\x7fELF\x02\x01":
        return []

    def at(offset: int, length: int) -> bytes:
        file.seek(offset)  # type: ignore[attr-defined]
        return bytes(file.read(length))  # type: ignore[attr-defined]

    table, entry_size, count = struct.unpack_from("<Q14xHH", header, 32)
    loads, dynamic = [], None
    for i in range(min(count, 256)):
        kind, _, offset, address, _, size = struct.unpack_from(
            "<IIQQQQ", at(table + i * entry_size, 40)
        )
        if kind == 1:
            loads.append((address, offset, size))
        elif kind == 2:
            dynamic = at(offset, min(size, 65536))
    if dynamic is None:
        return []
    tags = list(struct.iter_unpack("<qQ", dynamic[: len(dynamic) // 16 * 16]))
    strings = next((value for tag, value in tags if tag == 5), None)
    for address, offset, size in loads:
        if strings is not None and address <= strings < address + size:
            text = at(strings - address + offset, 1 << 16)
            return [
                text[value:].split(b"\0", 1)[0].decode()
                for tag, value in tags
                if tag == 1 and value < len(text)
            ]
    return []
