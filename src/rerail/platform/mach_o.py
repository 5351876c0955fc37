"""What a Mach-O library asks of macOS's loader: which others, where to look.

In: a path. Out: `Links`, as of an ELF file. Of a universal file the first 64-bit part is read.
Promises: a file that is not Mach-O, or is cut short, raises NotElf and nothing else.
"""

from __future__ import annotations

import struct
from pathlib import Path

from rerail.platform.elf_dynamic import Links, NotElf

_MAGIC_64 = b"\xcf\xfa\xed\xfe"
_FAT = (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_LOAD, _WEAK, _REEXPORT, _UPWARD, _LAZY = 0x0C, 0x80000018, 0x8000001F, 0x80000023, 0x20
_ID, _RPATH = 0x0D, 0x8000001C
_DYLIB_COMMANDS = {_LOAD, _REEXPORT, _UPWARD, _LAZY}  # a weak one may be missing
_CPU_64 = 0x01000000
_MOST_COMMAND_BYTES = 1 << 20


def is_mach_o(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            head = file.read(4)
    except OSError:
        return False
    return head == _MAGIC_64 or head in _FAT


def read_links(path: str) -> Links:
    try:
        with Path(path).open("rb") as file:
            head = file.read(4096)
            offset = _part_at(head)
            file.seek(offset)
            header = file.read(32)
            if header[:4] != _MAGIC_64:
                raise NotElf(f"{path}: not a 64-bit Mach-O file")
            count, size = struct.unpack_from("<II", header, 16)
            commands = file.read(min(size, _MOST_COMMAND_BYTES))
    except (OSError, struct.error) as error:
        raise NotElf(f"{path}: {error}") from error
    return _read_commands(commands, count)


def _part_at(head: bytes) -> int:
    """Where the 64-bit part of a universal file begins."""
    if head[:4] not in _FAT:
        return 0
    is_wide = head[:4] == _FAT[1]
    layout, size = (">iiQQII", 32) if is_wide else (">iiIII", 20)
    (parts,) = struct.unpack_from(">I", head, 4)
    for index in range(min(parts, 16)):
        fields = struct.unpack_from(layout, head, 8 + index * size)
        if fields[0] & _CPU_64:
            return int(fields[2])
    raise NotElf("no 64-bit part")


def _read_commands(commands: bytes, count: int) -> Links:
    soname: str | None = None
    needed: list[str] = []
    search: list[str] = []
    at = 0
    for _ in range(count):
        if at + 12 > len(commands):
            raise NotElf("cut short")
        kind, size, text_at = struct.unpack_from("<III", commands, at)
        if size < 8:
            raise NotElf("a load command without a size")
        text = commands[at + text_at : at + size].partition(b"\0")[0].decode(errors="replace")
        if kind == _ID:
            soname = text.rpartition("/")[2]
        elif kind in _DYLIB_COMMANDS:
            needed.append(text)
        elif kind == _RPATH:
            search.append(text)
        at += size
    return Links(soname, tuple(needed), tuple(search))
