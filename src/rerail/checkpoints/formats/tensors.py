"""Files of tensors with a header that says how long they are: safetensors, .npy, HDF5."""

from __future__ import annotations

import ast
import json
import re
import struct
from dataclasses import replace
from typing import IO, Any

from rerail.checkpoints.formats.budget import Budget
from rerail.checkpoints.formats.outcome import Reading, Torn
from rerail.checkpoints.formats.torch_legacy import check_pickle

NPY_SIGNATURE = b"\x93NUMPY"
_METADATA = "__metadata__"
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# safetensors itself refuses longer ones.
_LONGEST_HEADER = 100_000_000
# 150,000 tensors; JSON takes up to 30 times its size in memory.
_LONGEST_PARSED_HEADER = 16 << 20
# numpy itself refuses more than 10,000 characters unless it is told otherwise.
_LONGEST_NPY_HEADER = 1 << 16
_LARGEST_SIZE = 1 << 63
_PLAIN_TYPE = re.compile(r"[<>|=]?[a-zA-NP-Z]\d{0,9}(\[\d{0,9}[a-zA-Z]{1,2}\])?")


def looks_like_safetensors(head: bytes, size: int) -> bool:
    if len(head) < 9 or head[8:9] != b"{":
        return False
    return int(struct.unpack("<Q", head[:8])[0]) <= _LONGEST_HEADER


def check_safetensors(file: IO[bytes], size: int, budget: Budget) -> Reading:
    start = file.read(8)
    if len(start) < 8:
        raise Torn("it ends within its header")
    length = int(struct.unpack("<Q", start)[0])
    if length > _LONGEST_HEADER or 8 + length > size:
        raise Torn("it ends within its header")
    if length > _LONGEST_PARSED_HEADER:
        return Reading("safetensors", f"its header of {length} bytes was not parsed")
    try:
        header = json.loads(file.read(length))
        ranges = sorted(_tensor_range(each) for name, each in header.items() if name != _METADATA)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Torn("its header cannot be read") from None
    reached = 0
    for begin, end in ranges:
        if begin != reached:  # safetensors refuses gaps and overlaps
            raise Torn("its tensors do not lie one behind another")
        reached = end
    missing = 8 + length + reached - size
    if missing > 0:
        raise Torn(f"{missing} bytes of its tensors are missing")
    if missing < 0:
        raise Torn(f"it is {-missing} bytes longer than its tensors")
    return Reading("safetensors")


def _tensor_range(tensor: Any) -> tuple[int, int]:
    begin, end = (int(offset) for offset in tensor["data_offsets"])
    found = re.search(r"\d{1,3}", str(tensor["dtype"]))
    bits = 8 if found is None else int(found[0])  # BOOL has no number
    if begin < 0 or (end - begin) * 8 != _count(tensor["shape"]) * bits:
        raise ValueError("a tensor's size is not that of its shape")
    return begin, end


def _count(shape: Any) -> int:
    """Stops early: lengths of a thousand digits each would take for ever to multiply."""
    count = 1
    for each in sorted(map(int, shape)):
        if each < 0 or each > _LARGEST_SIZE or count > _LARGEST_SIZE:
            raise ValueError("larger than any file")
        count *= each
    return count


def check_npy(file: IO[bytes], size: int, budget: Budget) -> Reading:
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
    if begin + length > size:
        raise Torn("it ends within its header")
    if length > _LONGEST_NPY_HEADER:
        return Reading("npy array", f"its header of {length} bytes was not parsed")
    try:
        header = ast.literal_eval(file.read(length).decode("latin-1").strip())
        descr, shape = header["descr"], header["shape"]
        count = _count(shape)
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise Torn("its header cannot be read") from None
    if _holds_objects(descr):
        file.seek(begin + length)
        return replace(check_pickle(file, size, budget), kind="npy array of objects")
    kind = re.fullmatch(r"[<>|=][a-zA-Z](\d{1,9})", descr) if isinstance(descr, str) else None
    if kind is not None:
        width = int(kind[1]) * (4 if "U" in descr else 1)
        missing = begin + length + count * width - size
        if missing > 0:
            raise Torn(f"{missing} bytes of its array are missing")
    return Reading("npy array")


def _holds_objects(descr: Any) -> bool:
    """Whether numpy would unpickle the array: it has Python objects, alone or as a field.

    A description that is not plainly one of numbers, texts, times or bytes counts as objects. If
    its bytes are no pickle, the file is refused.
    """
    if isinstance(descr, str):
        return _PLAIN_TYPE.fullmatch(descr) is None
    if isinstance(descr, tuple):  # a type and the shape of a field
        return not descr or _holds_objects(descr[0])
    fields = descr if isinstance(descr, list) else [descr]
    return not all(
        isinstance(each, tuple) and len(each) > 1 and not _holds_objects(each[1]) for each in fields
    )


def check_hdf5(file: IO[bytes], size: int, budget: Budget) -> Reading:
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
    return Reading("HDF5 file")
