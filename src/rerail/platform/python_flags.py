"""Does a command's interpreter look at PYTHONPATH? If not, the agent has to be preloaded.

Comes in: the command and the environment it will have. Goes out: the reason to preload, or None.
Promises: reads at most the first bytes of a script and the tables of one ELF file; when in doubt
the answer is None, since LD_PRELOAD belongs only where it is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

_PYTHON_NAME = re.compile(r"(?:python|pypy)(?:\d(?:\.\d+)?)?t?$")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,200}=")
# Programs that run the rest of their command line, and which of their options take a value.
_WRAPPERS = {
    "env": ("-u", "-C", "-S"),
    "nice": ("-n",),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "time": ("-o", "-f"),
    "timeout": ("-k", "-s"),
    "taskset": (),
    "numactl": ("-N", "-m", "-C"),
}
_TAKES_POSITION = {"timeout": 1, "taskset": 1}
_OPTIONS_WITH_VALUE = "WXQ"


def needs_preload(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Why PYTHONPATH would not reach the interpreter of `command`; None if it would."""
    rest = _unwrapped(list(command))
    if not rest:
        return None
    program = _resolve(rest[0], environ)
    if _PYTHON_NAME.match(Path(rest[0]).name):
        return _flag_reason(rest[1:])
    if program is None:
        return None
    shebang = _shebang(program)
    if shebang:
        inner = _unwrapped(shebang)
        if inner and _PYTHON_NAME.match(Path(inner[0]).name):
            return _flag_reason(inner[1:])
        return None
    embedded = [name for name in needed_libraries(program) if name.startswith("libpython")]
    if embedded and not _PYTHON_NAME.match(program.resolve().name):
        return f"{program.name} embeds {embedded[0]}"
    return None


def _unwrapped(command: list[str]) -> list[str]:
    while command:
        name = Path(command[0]).name
        if name not in _WRAPPERS:
            return command
        rest = command[1:]
        while rest and (rest[0].startswith("-") or (name == "env" and _ASSIGNMENT.match(rest[0]))):
            takes_value = rest[0] in _WRAPPERS[name] and rest[0] != "-S"
            rest = rest[2:] if takes_value else rest[1:]
        command = rest[_TAKES_POSITION.get(name, 0) :]
    return command


def _flag_reason(arguments: list[str]) -> str | None:
    """Python's own options end at the script, -c, -m or a lone dash."""
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        if not argument.startswith("-") or argument in ("-", "--"):
            return None
        if argument.startswith("--"):
            position += argument == "--check-hash-based-pycs"
            continue
        for at, letter in enumerate(argument[1:], 1):
            if letter in "IES":
                return f"python -{letter} does not look at PYTHONPATH"
            if letter in "cm":
                return None
            if letter in _OPTIONS_WITH_VALUE:
                position += at + 1 == len(argument)
                break
    return None


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
