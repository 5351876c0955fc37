"""Is this file whole? Told from its own structure, without running anything of it.

In: a path. Out: None if nothing is wrong, else a sentence. A file of a kind that carries no end of
its own (a text log) only has to be there and not be empty. Pickles are walked, never loaded.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

_BLOCK = 1 << 20


def what_is_wrong(path: Path) -> str | None:
    """A sentence if the file cannot be what its name says."""
    try:
        size = path.stat().st_size
        if size == 0:
            return "is empty"
        with path.open("rb") as file:
            magic = file.read(16)
        check = _CHECKS.get(path.suffix.lower())
        if magic.startswith(b"PK\x03\x04"):
            check = _check_zip  # torch.save, .npz and the like, whatever they are called
        return check(path, magic, size) if check else None
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _check_zip(path: Path, magic: bytes, size: int) -> str | None:
    if not magic.startswith(b"PK"):
        return "is not a zip archive"
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as error:
        return f"is cut or damaged: {error}"
    return f"is damaged: its member {broken} has a wrong checksum" if broken else None


def _check_weights(path: Path, magic: bytes, size: int) -> str | None:
    """torch.save writes a zip archive, older ones a pickle; .ckpt may be anybody's format."""
    if magic[:1] == b"\x80":
        return _check_pickle(path, magic, size)
    if not any(magic):
        return "begins with zeros: it was never written"
    return None


def _check_pickle(path: Path, magic: bytes, size: int) -> str | None:
    import pickletools

    try:
        with path.open("rb") as file:
            last = ""
            for opcode, _, _ in pickletools.genops(file):
                last = opcode.name
    except Exception as error:  # every way in which a cut pickle fails to be read
        return f"is cut or damaged: {error}"
    return None if last == "STOP" else "is cut: it has no end"


def _check_safetensors(path: Path, magic: bytes, size: int) -> str | None:
    if size < 8:
        return "is cut: it has no header"
    (length,) = struct.unpack("<Q", magic[:8])
    if length > size - 8:
        return "is cut within its header"
    with path.open("rb") as file:
        file.seek(8)
        try:
            header = json.loads(file.read(length))
            ends = [t["data_offsets"][1] for k, t in header.items() if k != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return "has a damaged header"
    wanted = 8 + length + max(ends, default=0)
    return f"is cut: {size} of {wanted} bytes" if size < wanted else None


def _check_npy(path: Path, magic: bytes, size: int) -> str | None:
    import ast

    if magic[:6] != b"\x93NUMPY":
        return "is not a .npy file"
    wide = magic[6] >= 2
    with path.open("rb") as file:
        file.seek(8)
        length = struct.unpack("<I" if wide else "<H", file.read(4 if wide else 2))[0]
        start = (12 if wide else 10) + length
        try:
            header = ast.literal_eval(file.read(length).decode("latin-1"))
            count = 1
            for each in header["shape"]:
                count *= int(each)
            item = int("".join(c for c in str(header["descr"]) if c.isdigit()) or "0")
        except (ValueError, SyntaxError, KeyError, TypeError):
            return "has a damaged header"
    if not isinstance(header["descr"], str) or header["descr"][1:2] == "O":
        return None
    wide_text = 4 if header["descr"][1:2] == "U" else 1
    wanted = start + count * item * wide_text
    return f"is cut: {size} of {wanted} bytes" if size < wanted else None


def _check_json(path: Path, magic: bytes, size: int) -> str | None:
    try:
        json.loads(path.read_bytes())
    except ValueError as error:
        return f"is not whole JSON: {error}"
    return None


def _check_jsonl(path: Path, magic: bytes, size: int) -> str | None:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    json.loads(line)
            except ValueError:
                return f"is not whole: line {number} is not JSON"
    return None


def _check_gzip(path: Path, magic: bytes, size: int) -> str | None:
    import gzip

    try:
        with gzip.open(path) as file:
            while file.read(_BLOCK):
                pass
    except (OSError, EOFError, zlib.error) as error:
        return f"is cut or damaged: {error}"
    return None


def _ends_with(tail: bytes, within: int) -> Callable[[Path, bytes, int], str | None]:
    def check(path: Path, magic: bytes, size: int) -> str | None:
        with path.open("rb") as file:
            file.seek(max(0, size - within), os.SEEK_SET)
            return None if tail in file.read(within) else "is cut: its end is missing"

    return check


def _check_sqlite(path: Path, magic: bytes, size: int) -> str | None:
    if not magic.startswith(b"SQLite format 3\0"):
        return "is not a database"
    return None


_png = _ends_with(b"IEND\xaeB`\x82", 12)
_jpeg = _ends_with(b"\xff\xd9", 64)

_CHECKS: dict[str, Callable[[Path, bytes, int], str | None]] = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin"), _check_weights),
    **dict.fromkeys((".npz", ".zip", ".keras"), _check_zip),
    **dict.fromkeys((".pkl", ".pickle"), _check_pickle),
    ".safetensors": _check_safetensors,
    ".npy": _check_npy,
    ".json": _check_json,
    ".jsonl": _check_jsonl,
    ".gz": _check_gzip,
    ".png": _png,
    ".jpg": _jpeg,
    ".jpeg": _jpeg,
    ".sqlite": _check_sqlite,
}
