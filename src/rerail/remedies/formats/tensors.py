"""Files of tensors with a header that says how long they are: safetensors, .npy, HDF5."""

from __future__ import annotations

import ast
import json
import math
import re
import struct
from typing import IO, Any

from rerail.remedies.formats.torn import Torn

NPY_SIGNATURE = b"\x93NUMPY"
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# safetensors itself refuses longer ones.
_LONGEST_HEADER = 100_000_000


def looks_like_safetensors(head: bytes, size: int) -> bool:
    if len(head) < 9 or head[8:9] != b"{":
        return False
    return int(struct.unpack("<Q", head[:8])[0]) <= _LONGEST_HEADER


def check_safetensors(file: IO[bytes], size: int) -> str:
    start = file.read(8)
    if len(start) < 8:
        raise Torn("it ends within its header")
    length = int(struct.unpack("<Q", start)[0])
    if length > _LONGEST_HEADER or 8 + length > size:
        raise Torn("it ends within its header")
    try:
        header = json.loads(file.read(length))
        ends = [_tensor_end(name, each) for name, each in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Torn("its header cannot be read") from None
    missing = 8 + length + max(ends, default=0) - size
    if missing > 0:
        raise Torn(f"{missing} bytes of its tensors are missing")
    if missing < 0:
        raise Torn(f"it is {-missing} bytes longer than its tensors")
    return "safetensors"


def _tensor_end(name: str, tensor: Any) -> int:
    begin, end = (int(offset) for offset in tensor["data_offsets"])
    found = re.search(r"\d+", str(tensor["dtype"]))
    bits = 8 if found is None else int(found[0])  # BOOL has no number
    count = math.prod(int(length) for length in tensor["shape"])
    if begin < 0 or (end - begin) * 8 != count * bits:
        raise ValueError(name)
    return end


def check_npy(file: IO[bytes], size: int) -> str:
    start = file.read(10)
    if len(start) < 10:
        raise Torn("it ends within its header")
    if start[6] == 1:
        length = int(struct.unpack("<H", start[8:10])[0])
        begin = 10
    else:
        more = file.read(2)
        if len(more) < 2:
            raise Torn("it ends within its header")
        length = int(struct.unpack("<I", start[8:10] + more)[0])
        begin = 12
    if begin + length > size or length > _LONGEST_HEADER:
        raise Torn("it ends within its header")
    try:
        header = ast.literal_eval(file.read(length).decode("latin-1").strip())
        descr, shape = header["descr"], header["shape"]
        count = math.prod(int(each) for each in shape)
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise Torn("its header cannot be read") from None
    kind = re.fullmatch(r"[<>|=][a-zA-Z](\d+)", descr) if isinstance(descr, str) else None
    if kind is not None and "O" not in descr:
        width = int(kind[1]) * (4 if "U" in descr else 1)
        missing = begin + length + count * width - size
        if missing > 0:
            raise Torn(f"{missing} bytes of its array are missing")
    return "npy array"


def check_hdf5(file: IO[bytes], size: int) -> str:
    """The superblock says where the file ends; HDF5 itself refuses one that is shorter."""
    block = file.read(96)
    version = block[8] if len(block) > 8 else 0
    # Versions 0 and 1: sizes of offsets at 13, then four addresses of which the third is the end.
    width_at, end_at = (13, 24 if version == 0 else 28) if version < 2 else (9, 12)
    if len(block) <= width_at or block[width_at] not in (2, 4, 8):
        raise Torn("its superblock is damaged")
    width = block[width_at]
    at = end_at + 2 * width
    if len(block) < at + width:
        raise Torn("it ends within its superblock")
    end = int.from_bytes(block[at : at + width], "little")
    if end > size:
        raise Torn(f"{end - size} bytes are missing at its end")
    return "HDF5 file"
