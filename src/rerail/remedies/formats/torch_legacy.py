"""A bare pickle, and torch's format before 1.6: pickles in a row and then the tensors' bytes.

magic | version | system | object | storage keys | count and bytes of each storage
"""

from __future__ import annotations

import os
import struct
from typing import IO

from rerail.remedies.formats.pickle_stream import Storage, read_pickle
from rerail.remedies.formats.torn import Torn

_MAGIC = 0x1950A86A20F9469CFC6C
_COUNT = struct.Struct("<q")


def check_pickle(file: IO[bytes], size: int) -> str:
    first = read_pickle(file)
    if first.result == _MAGIC:
        return _check_torch(file, size)
    first.refuse_dangerous()
    # joblib puts the bytes of arrays between opcodes, and says so by this name.
    if file.tell() != size and not any(name.module.startswith("joblib") for name in first.names):
        return _check_more(file, size)
    return "pickle"


def _check_more(file: IO[bytes], size: int) -> str:
    """Some programs dump several objects into one file, one after another."""
    while file.tell() < size:
        read_pickle(file).refuse_dangerous()
    return "pickles"


def _check_torch(file: IO[bytes], size: int) -> str:
    read_pickle(file)
    read_pickle(file)
    contents = read_pickle(file)
    contents.refuse_dangerous()
    keys = read_pickle(file, keeps_texts=True).texts
    if sorted(keys) != sorted(contents.storages):
        raise Torn("it does not list the tensors that it holds")
    for key in keys:
        _skip_storage(file, size, contents.storages[key])
    if file.tell() != size:
        raise Torn(f"it is {size - file.tell()} bytes longer than its tensors")
    return "torch checkpoint (format before 1.6)"


def _skip_storage(file: IO[bytes], size: int, storage: Storage) -> None:
    start = file.read(_COUNT.size)
    if len(start) < _COUNT.size or _COUNT.unpack(start)[0] != storage.elements:
        raise Torn(f"the length of tensor {storage.key} is not what it says elsewhere")
    if storage.size_bytes is None:
        raise Torn(f"tensor {storage.key} is of a kind that is not known here")
    end = file.seek(storage.size_bytes, os.SEEK_CUR)
    if end > size:
        raise Torn(f"{end - size} bytes of its tensors are missing")
