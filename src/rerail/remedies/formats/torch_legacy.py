"""A bare pickle, and torch's format before 1.6: pickles in a row and then the tensors' bytes.

magic | version | system | object | storage keys | count and bytes of each storage
"""

from __future__ import annotations

import os
import struct
from typing import IO

from rerail.remedies.formats.pickle_stream import PickleContents, read_pickle
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
    read_pickle(file)
    _check_storages(file, size, contents)
    return "torch checkpoint (format before 1.6)"


def _check_storages(file: IO[bytes], size: int, contents: PickleContents) -> None:
    """They are in the order of their keys; as sizes add up, the order does not matter here."""
    expected = 0
    for storage in contents.storages.values():
        if storage.size_bytes is None:
            return
        expected += _COUNT.size + storage.size_bytes
    there = size - file.tell()
    file.seek(0, os.SEEK_END)
    if there < expected:
        raise Torn(f"{expected - there} bytes of its tensors are missing")
