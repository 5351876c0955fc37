"""ZIP archives: torch's checkpoints since 1.6, .npz, .keras, and archives one behind another.

In: an open file. Out: what it is. Promises: an archive cut off at any byte is `Torn`; the pickle
and the sizes are looked at before the bytes; every member is read once against its checksum, for as
long as the budget lasts; a torch archive has the storages that its pickle refers to, in their
sizes; a directory that would not fit into memory, members that share their bytes and members that
unpack to absurd sizes are refused.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from dataclasses import dataclass
from typing import IO

from rerail.checkpoints.formats.budget import Budget, refuse_inflation
from rerail.checkpoints.formats.content import HEAD_BYTES, is_packed, reader_of_content
from rerail.checkpoints.formats.file_part import open_part
from rerail.checkpoints.formats.outcome import Reading, Torn, Unfinished
from rerail.checkpoints.formats.pickle_stream import read_pickle
from rerail.checkpoints.formats.torch_legacy import check_contents

_END = struct.Struct("<4s4H2LH")  # the end of the central directory, without its comment
_END_SIGNATURE = b"PK\x05\x06"
_END_64 = struct.Struct("<4sQ2H2L4Q")  # the same for large archives, in front of a locator
_END_64_SIGNATURE = b"PK\x06\x06"
_LOCATOR_BYTES = 20
_LONGEST_COMMENT = 0xFFFF
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_CHUNK_BYTES = 4 << 20
# 46 bytes at least for each member, which takes about 600 in memory. 20,000 tensors have 1.3 MB.
_LARGEST_DIRECTORY_BYTES = 24 << 20
_LARGEST_UNPACKED_PICKLE_BYTES = 64 << 20


def check_zip(file: IO[bytes], size: int, budget: Budget) -> Reading:
    end = _find_end(file, size)
    # An archive inside a cut-off archive may end where the file ends: then it does not begin there.
    if end.begin != 0:
        raise Torn("the archive does not begin where the file begins")
    return _check_archive(file, size, budget)


def check_zips(file: IO[bytes], size: int, budget: Budget) -> Reading:
    """Archives one behind another, one for each tensor: distributed checkpoints of torch."""
    foreign: frozenset[str] = frozenset()
    unchecked = None
    while size > 0:
        begin = _find_end(file, size).begin
        if not 0 <= begin < size:
            raise Torn("its directory is damaged")
        found = _check_archive(open_part(file, begin, size), size - begin, budget)
        foreign |= found.foreign
        unchecked = unchecked or found.unchecked
        size = begin
    return Reading("distributed torch checkpoint", unchecked, foreign)


@dataclass(frozen=True)
class _End:
    begin: int  # of the archive in the file
    directory_bytes: int


def _find_end(file: IO[bytes], size: int) -> _End:
    length = min(size, _END.size + _LONGEST_COMMENT)
    file.seek(size - length)
    tail = file.read(length)
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or len(tail) - at < _END.size:
        raise Torn("the archive ends before its directory")
    _, disk, first_disk, here, entries, directory, offset, comment = _END.unpack_from(tail, at)
    if disk or first_disk or here != entries:
        raise Torn("its directory is damaged")
    if at + _END.size + comment != len(tail):
        raise Torn("the archive does not end where its directory says")
    at += size - length
    at_64 = at - _LOCATOR_BYTES - _END_64.size
    file.seek(max(0, at_64))
    found = file.read(_END_64.size) if at_64 >= 0 else b""
    if found.startswith(_END_64_SIGNATURE) and len(found) == _END_64.size:
        directory, offset = _END_64.unpack(found)[-2:]
        at = at_64
    file.seek(0, os.SEEK_SET)
    return _End(at - directory - offset, directory)


def _check_archive(file: IO[bytes], size: int, budget: Budget) -> Reading:
    directory_bytes = _find_end(file, size).directory_bytes
    if directory_bytes > _LARGEST_DIRECTORY_BYTES:
        raise Unfinished(f"its directory of {directory_bytes} bytes was not read")
    try:
        archive = zipfile.ZipFile(file)
        members = archive.infolist()
    except Exception as error:
        raise Torn(f"its directory is damaged ({_short(error)})") from None
    if not members:
        raise Torn("the archive is empty")
    if not all(_is_plausible(member) for member in members):
        raise Torn("its directory is damaged")
    _check_places(members, size)
    has_checksums = any(member.CRC for member in members if member.file_size)
    if not has_checksums:
        for member in members:
            # torch writes zeros when it is told to save time; zipfile then must not compare.
            del member.CRC
    contents = _check_contents(file, archive, members, budget)
    kind = contents.kind if has_checksums else f"{contents.kind} without checksums"
    unread = _read_members(archive, members, budget)
    return Reading(kind, unread or contents.unchecked, contents.foreign)


def _is_plausible(member: zipfile.ZipInfo) -> bool:
    """What zipfile does not look at and torch's reader does; no writer gives members comments."""
    is_stored = member.compress_type == zipfile.ZIP_STORED
    return (
        member.volume == 0
        and not member.comment
        and (not is_stored or member.compress_size == member.file_size)
    )


def _check_places(members: list[zipfile.ZipInfo], size: int) -> None:
    reached = 0
    in_order = sorted(members, key=lambda member: member.header_offset)
    if in_order[0].header_offset != 0:
        raise Torn("the archive does not begin where the file begins")
    for member in in_order:
        if member.header_offset < reached:
            raise Torn(f"{_name(member)} lies in the bytes of another member")
        reached = member.header_offset + _LOCAL_HEADER.size + member.compress_size
    if reached > size:
        raise Torn(f"{_name(in_order[-1])} ends behind the end of the archive")
    packed = sum(member.compress_size for member in members)
    refuse_inflation("its members", packed, sum(member.file_size for member in members))
    for member in members:
        refuse_inflation(_name(member), member.compress_size, member.file_size)


def _read_members(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], budget: Budget
) -> str | None:
    """Compares the checksums; says what was left out for lack of time."""
    done, total = 0, sum(each.file_size for each in members)
    for member in members:
        left = member.file_size
        try:
            with archive.open(member) as stream:
                while left > 0 and budget.can_read_on():
                    data = stream.read(min(_CHUNK_BYTES, left))
                    if not data:
                        raise Torn(f"{_name(member)} ends {left} bytes early")
                    left -= len(data)
                if left == 0:
                    stream.read(1)  # the checksum is compared at the end of the stream
        except Torn:
            raise
        except Exception as error:
            raise Torn(f"{_name(member)} is damaged ({_short(error)})") from None
        done += member.file_size - left
        if (left > 0 or member is not members[-1]) and not budget.can_read_on():
            return f"{done} of {total} bytes were compared with their checksums in the time"
    return None


def _check_contents(
    file: IO[bytes], archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], budget: Budget
) -> Reading:
    sizes = {member.filename: member.file_size for member in members}
    pickled = [
        member
        for member in members
        if member.filename == "data.pkl" or member.filename.endswith("/data.pkl")
    ]
    if not pickled:
        is_arrays = all(name.endswith(".npy") for name in sizes)
        foreign, unchecked = _check_members(file, archive, members, budget)
        return Reading("npz archive" if is_arrays else "zip archive", unchecked, foreign)
    foreign = frozenset[str]()
    for member in pickled:
        stream, end = _pickle_stream(file, archive, member)
        contents = read_pickle(stream, end, budget)
        if stream.tell() != end:
            raise Torn(f"{_name(member)} is longer than its pickle")
        foreign |= check_contents(contents, stream, budget)
        folder = member.filename.removesuffix("data.pkl")
        for storage in contents.storages.values():
            there = sizes.get(f"{folder}data/{storage.key}")
            if there is None:
                raise Torn(f"the tensor data {folder}data/{storage.key} is not in it")
            if storage.size_bytes is not None and there < storage.size_bytes:
                raise Torn(f"the tensor data {folder}data/{storage.key} is too short")
    return Reading("torch checkpoint", foreign=foreign)


def _check_members(
    file: IO[bytes], archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], budget: Budget
) -> tuple[frozenset[str], str | None]:
    """Check members that are pickles or arrays. Return what they hold, and what was not checked."""
    foreign: frozenset[str] = frozenset()
    unchecked = None
    for member in members:
        try:
            with archive.open(member) as stream:
                head = stream.read(HEAD_BYTES)
        except Exception as error:
            raise Torn(f"{_name(member)} is damaged ({_short(error)})") from None
        if (check := reader_of_content(head)) is None:
            if is_packed(head):
                unchecked = unchecked or f"what {_name(member)} holds, which is packed once more"
            continue
        try:
            part, end = _pickle_stream(file, archive, member)
            begin = part.tell()
            found = check(open_part(part, begin, end), end - begin, budget)
        except Torn as torn:
            raise Torn(f"{_name(member)}: {torn}") from None
        except Unfinished as why:
            unchecked = unchecked or f"{_name(member)}: {why}"
            continue
        foreign |= found.foreign
        unchecked = unchecked or found.unchecked
    return foreign, unchecked


def _pickle_stream(
    file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[IO[bytes], int]:
    """torch stores members as they are, so the pickle is read where it lies, whatever its size."""
    try:
        with archive.open(member) as stream:  # compares both headers of the member
            if member.compress_type != zipfile.ZIP_STORED:
                if member.file_size > _LARGEST_UNPACKED_PICKLE_BYTES:
                    raise Unfinished("its pickle is compressed, and large")
                return io.BytesIO(stream.read(member.file_size)), member.file_size
        file.seek(member.header_offset)
        header = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    except Unfinished:
        raise
    except Exception as error:
        raise Torn(f"{_name(member)} is damaged ({_short(error)})") from None
    begin = member.header_offset + _LOCAL_HEADER.size + header[-2] + header[-1]
    file.seek(begin)
    return file, begin + member.file_size


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename[:100]


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:80] or type(error).__name__
