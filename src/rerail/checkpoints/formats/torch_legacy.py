"""A bare pickle, and torch's format before 1.6: pickles in a row and then the tensors' bytes.

magic | version | system | object | storage keys | count and bytes of each storage

A bare pickle of tensors holds a file of that format in its bytes for each of them; these are looked
at as well, because loading the outer one loads them.
"""

from __future__ import annotations

import io
import os
import struct
from typing import IO

from rerail.checkpoints.formats.budget import Budget
from rerail.checkpoints.formats.outcome import Reading, Torn, Unfinished
from rerail.checkpoints.formats.pickle_contents import Nested, PickleContents, Storage
from rerail.checkpoints.formats.pickle_stream import read_pickle

_MAGIC = 0x1950A86A20F9469CFC6C
_COUNT = struct.Struct("<q")
_LARGEST_NESTED_TEXT = 128 << 20  # it is held in memory twice
_DEEPEST_NESTING = 4  # a tensor in a tensor's bytes is one; more than two have no reason


def check_pickle(file: IO[bytes], size: int, budget: Budget) -> Reading:
    return _check_until(file, size, budget, 0)


def check_contents(
    contents: PickleContents, file: IO[bytes], budget: Budget, depth: int = 0
) -> frozenset[str]:
    """The program's own classes in a pickle and in the tensors that were pickled into it."""
    foreign = contents.judge()
    if contents.nested and depth >= _DEEPEST_NESTING:
        raise Torn("its pickle holds pickles in pickles, deeper than any program writes")
    at = file.tell()
    for each in contents.nested:
        part, end = _open_nested(file, each)
        foreign |= _check_until(part, end, budget, depth + 1).foreign
    file.seek(at)
    return foreign


def _open_nested(file: IO[bytes], nested: Nested) -> tuple[IO[bytes], int]:
    file.seek(nested.offset)
    if not nested.is_text:
        return file, nested.offset + nested.length
    if nested.length > _LARGEST_NESTED_TEXT:
        raise Unfinished(f"a tensor that was pickled as a text of {nested.length} bytes")
    try:
        data = file.read(nested.length).decode("utf-8", "surrogatepass").encode("latin-1")
    except ValueError:
        raise Torn("its pickle is damaged: a text that should be bytes is not") from None
    return io.BytesIO(data), len(data)


def _check_until(file: IO[bytes], end: int, budget: Budget, depth: int) -> Reading:
    first = read_pickle(file, end, budget)
    if first.result == _MAGIC:
        return _check_torch(file, end, budget, depth)
    foreign = check_contents(first, file, budget, depth)
    kind = "pickle"
    while file.tell() < end:
        # Some programs dump several objects into one file, one after another.
        kind = "pickles"
        foreign |= check_contents(read_pickle(file, end, budget), file, budget, depth)
    return Reading(kind, foreign=foreign)


def _check_torch(file: IO[bytes], end: int, budget: Budget, depth: int) -> Reading:
    foreign: frozenset[str] = frozenset()
    for _ in ("version", "system"):
        foreign |= check_contents(read_pickle(file, end, budget), file, budget, depth)
    contents = read_pickle(file, end, budget)
    foreign |= check_contents(contents, file, budget, depth)
    listed = read_pickle(file, end, budget, keeps_texts=True)
    foreign |= check_contents(listed, file, budget, depth)
    if sorted(listed.texts) != sorted(contents.storages):
        raise Torn("it does not list the tensors that it holds")
    for key in listed.texts:
        _skip_storage(file, end, contents.storages[key])
    if file.tell() != end:
        raise Torn(f"it is {end - file.tell()} bytes longer than its tensors")
    return Reading("torch checkpoint (format before 1.6)", foreign=foreign)


def _skip_storage(file: IO[bytes], end: int, storage: Storage) -> None:
    start = file.read(_COUNT.size)
    if len(start) < _COUNT.size or _COUNT.unpack(start)[0] != storage.elements:
        raise Torn(f"the length of tensor {storage.key} is not what it says elsewhere")
    if storage.size_bytes is None:
        raise Torn(f"tensor {storage.key} is of a kind that is not known here")
    missing = file.tell() + storage.size_bytes - end
    if storage.elements < 0 or missing > 0:
        raise Torn(f"{missing} bytes of its tensors are missing")
    file.seek(storage.size_bytes, os.SEEK_CUR)
