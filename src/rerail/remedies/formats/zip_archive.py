"""ZIP archives: torch's checkpoints since 1.6, .npz, .keras.

In: an open file. Out: what it is. Promises: an archive cut off at any byte is `Torn`; every member
is read once against its checksum; a torch archive has the storages that its pickle refers to, in
their sizes.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from typing import IO

from rerail.remedies.formats.pickle_stream import read_pickle
from rerail.remedies.formats.torn import Torn

SIGNATURE = b"PK\x03\x04"
_END = struct.Struct("<4s4H2LH")  # the end of the central directory, without its comment
_END_SIGNATURE = b"PK\x05\x06"
_LONGEST_COMMENT = 0xFFFF
_CHUNK_BYTES = 4 << 20
_LARGEST_PICKLE_BYTES = 1 << 30


def check_zip(file: IO[bytes], size: int) -> str:
    _check_end(file, size)
    try:
        archive = zipfile.ZipFile(file)
        members = archive.infolist()
    except Exception as error:
        raise Torn(f"its directory is damaged ({_short(error)})") from None
    if not members:
        raise Torn("the archive is empty")
    if not all(_is_plausible(member) for member in members):
        raise Torn("its directory is damaged")
    # An archive inside a cut-off archive may end where the file ends: then it does not begin there.
    if min(member.header_offset for member in members) != 0:
        raise Torn("the archive does not begin where the file begins")
    has_checksums = any(member.CRC for member in members if member.file_size)
    for member in members:
        if not has_checksums:
            # torch writes zeros when it is told to save time; zipfile then must not compare.
            del member.CRC
        _check_member(archive, member)
    kind = _check_contents(archive, {member.filename: member.file_size for member in members})
    return kind if has_checksums else f"{kind} without checksums"


def _is_plausible(member: zipfile.ZipInfo) -> bool:
    """What zipfile does not look at and torch's reader does; no writer gives members comments."""
    is_stored = member.compress_type == zipfile.ZIP_STORED
    return (
        member.volume == 0
        and not member.comment
        and (not is_stored or member.compress_size == member.file_size)
    )


def _check_end(file: IO[bytes], size: int) -> None:
    length = min(size, _END.size + _LONGEST_COMMENT)
    file.seek(size - length)
    tail = file.read(length)
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or len(tail) - at < _END.size:
        raise Torn("the archive ends before its directory")
    _, disk, first_disk, here, entries, _, _, comment_length = _END.unpack_from(tail, at)
    if disk or first_disk or here != entries:
        raise Torn("its directory is damaged")
    if at + _END.size + comment_length != len(tail):
        raise Torn("the archive does not end where its directory says")
    file.seek(0, os.SEEK_SET)


def _check_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    try:
        with archive.open(member) as stream:
            left = member.file_size
            while left > 0:
                data = stream.read(min(_CHUNK_BYTES, left))
                if not data:
                    raise Torn(f"{member.filename} ends {left} bytes early")
                left -= len(data)
            stream.read(1)  # the checksum is compared at the end of the stream
    except Torn:
        raise
    except Exception as error:
        raise Torn(f"{member.filename} is damaged ({_short(error)})") from None


def _check_contents(archive: zipfile.ZipFile, sizes: dict[str, int]) -> str:
    pickled = [name for name in sizes if name == "data.pkl" or name.endswith("/data.pkl")]
    if not pickled:
        return "npz archive" if all(name.endswith(".npy") for name in sizes) else "zip archive"
    for name in pickled:
        if sizes[name] > _LARGEST_PICKLE_BYTES:
            continue
        contents = read_pickle(io.BytesIO(archive.read(name)))
        contents.refuse_dangerous()
        folder = name.removesuffix("data.pkl")
        for storage in contents.storages.values():
            there = sizes.get(f"{folder}data/{storage.key}")
            if there is None:
                raise Torn(f"the tensor data {folder}data/{storage.key} is not in it")
            if storage.size_bytes is not None and there < storage.size_bytes:
                raise Torn(f"the tensor data {folder}data/{storage.key} is too short")
    return "torch checkpoint"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:80] or type(error).__name__
