"""The first rows of every array of an .npz, read and written without numpy.

In: an archive. Out: how many rows it has, or a smaller archive. Arrays that cannot be cut by bytes
(objects, Fortran order, scalars) are kept whole.
"""

from __future__ import annotations

import ast
import re
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

_MAGIC = b"\x93NUMPY"
_CHUNK = 1 << 20


def rows_of(path: Path) -> int:
    """Of the longest array; 0 where nothing can be cut."""
    most = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    header = _read_header(member)
                if header is not None:
                    most = max(most, int(header["shape"][0]))
    except (OSError, zipfile.BadZipFile):
        return 0
    return most


def write_first_rows(path: Path, target: Path, rows: int) -> None:
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w") as smaller:
        for name in archive.namelist():
            with archive.open(name) as member:
                header = _read_header(member)
                if header is None or header["shape"][0] <= rows:
                    smaller.writestr(name, archive.read(name))
                    continue
                shape = (rows, *header["shape"][1:])
                with smaller.open(name, "w", force_zip64=True) as out:
                    out.write(_header_bytes(header, shape))
                    _copy(member, out, _bytes_of(header["descr"], shape))


def _read_header(member: IO[bytes]) -> dict[str, Any] | None:
    """Of an array that can be cut after a row."""
    start = member.read(8)
    if len(start) < 8 or start[:6] != _MAGIC:
        return None
    width = 2 if start[6] == 1 else 4
    (length,) = struct.unpack("<H" if width == 2 else "<I", member.read(width))
    try:
        header = ast.literal_eval(member.read(length).decode("latin-1"))
        is_plain = isinstance(header["descr"], str) and re.fullmatch(
            r"[<>|=][?bBhHiIlLqQefdgFDGmMSUVuic]\d+(\[.*\])?", header["descr"]
        )
        if not is_plain or header["fortran_order"] or not header["shape"]:
            return None
    except (ValueError, SyntaxError, KeyError, TypeError):
        return None
    return dict(header)


def _header_bytes(header: dict[str, Any], shape: tuple[int, ...]) -> bytes:
    text = repr({**header, "shape": shape})
    padding = -(len(_MAGIC) + 4 + len(text) + 1) % 64
    body = (text + " " * padding + "\n").encode("latin-1")
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(body)) + body


def _bytes_of(descr: str, shape: tuple[int, ...]) -> int:
    found = re.match(r".(.)(\d+)", descr)
    assert found is not None
    size = int(found[2]) * (4 if found[1] == "U" else 1)
    for count in shape:
        size *= count
    return size


def _copy(source: IO[bytes], target: IO[bytes], count: int) -> None:
    while count > 0:
        piece = source.read(min(count, _CHUNK))
        if not piece:
            return
        target.write(piece)
        count -= len(piece)
