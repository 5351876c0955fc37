"""The members of a zip or tar, each a stream of its own.

In: a way to open the archive's bytes, as often as needed. Out: `Member`s in the archive's order,
each with a way to open it, or with the reason why it is passed over. Promises: nothing is written
to the disk; links, devices and encrypted members are passed over; a directory of members that is
too large to be one of logs is refused before it is read; what hostile headers ask for in memory or
in jumps backwards is refused. A tar inside a compressed file is read twice, from the beginning to
the end: once for its list, once for its members in order.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from rerail.errors import UnreadableInput
from rerail.evidence.text.file_heads import HEAD_BYTES, Opener, buffered, plain_name
from rerail.evidence.text.unpacking import DAMAGE, BoundedStream
from rerail.platform.deadline import Deadline

MOST_MEMBERS = 5000
MOST_AT_ONCE_BYTES = 4 << 20  # a zip's list of 50,000 members; no header of a tar is larger
_SKIPPED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Member:
    name: str
    opener: Opener | None = None
    head: bytes | None = None  # its first bytes, where they came by anyhow
    why_not: str = ""


def members_of(
    kind: str, opener: Opener, name: str, deadline: Deadline, notes: list[str]
) -> Iterator[Member]:
    """Raises UnreadableInput for what is no archive at all; a damaged one gives its beginning."""
    found = (_of_zip if kind == "zip" else _of_tar)(opener, name, deadline, notes)
    count = 0
    while not deadline.skips(f"the rest of {name}"):
        try:
            member = next(found)
        except StopIteration:
            return
        except (UnreadableInput, *DAMAGE, tarfile.TarError, LookupError, MemoryError) as error:
            if not count:
                raise _not_an_archive(kind, name, error) from None
            notes.append(f"{name} is cut off or damaged after its member {count:,}")
            return
        if count >= MOST_MEMBERS:
            notes.append(f"{name} has more than {MOST_MEMBERS:,} members; the rest was not read")
            return
        count += 1
        yield member


def _not_an_archive(kind: str, name: str, error: BaseException) -> UnreadableInput:
    if isinstance(error, UnreadableInput):
        return error
    return UnreadableInput(
        f"{name} begins like a {kind} file and is not a whole one.",
        "Unpack it as far as possible, and name the logs.",
    )


def _of_zip(opener: Opener, name: str, deadline: Deadline, notes: list[str]) -> Iterator[Member]:
    archive = zipfile.ZipFile(cast("BinaryIO", _Checked(opener(), name)))
    infos = archive.infolist()
    if any(info.filename.endswith("/data.pkl") for info in infos):
        raise UnreadableInput(f"{name} is a checkpoint, not a log.", "Name the run's log.")
    for info in infos:
        shown = plain_name(info.filename)
        mode = info.external_attr >> 16
        if info.is_dir():
            continue
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            yield Member(shown, why_not="a link")
        elif info.flag_bits & 1:
            yield Member(shown, why_not="encrypted")
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            yield Member(shown, why_not="packed in an unusual way")
        else:
            yield Member(shown, _zip_opener(archive, info, shown, deadline, notes))


def _zip_opener(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    name: str,
    deadline: Deadline,
    notes: list[str],
) -> Opener:
    return lambda: buffered(_ZipMember(archive, info, name, deadline, notes))


class _ZipMember(BoundedStream):
    def __init__(
        self,
        archive: zipfile.ZipFile,
        info: zipfile.ZipInfo,
        name: str,
        deadline: Deadline,
        notes: list[str],
    ) -> None:
        super().__init__(name, deadline, notes)
        self._archive = archive
        self._info = info
        self._file: BinaryIO | None = None

    def _more(self, most_bytes: int) -> bytes:
        if self._file is None:  # here, where what is wrong with its header is caught
            archive = self._archive
            self._file = cast("BinaryIO", archive.open(self._info))
        return self._file.read(most_bytes)


def _of_tar(opener: Opener, name: str, deadline: Deadline, notes: list[str]) -> Iterator[Member]:
    listing = _Forward(opener, name)
    contents = _Shared(opener, name)
    archive = tarfile.TarFile(fileobj=cast("BinaryIO", listing), mode="r")
    while (info := archive.next()) is not None:
        shown = plain_name(info.name)
        if info.isdir():
            continue
        if not info.isreg() or info.issparse():
            yield Member(shown, why_not="a link" if info.islnk() or info.issym() else "no file")
        else:
            head = b""
            if info.size > 1:
                # Not its last byte: the next header is looked for from there, and only forwards.
                listing.seek(info.offset_data)
                head = listing.read(min(info.size - 1, HEAD_BYTES))
            yield Member(shown, _tar_opener(contents, info, shown, deadline, notes), head)


def _tar_opener(
    contents: _Shared, info: tarfile.TarInfo, name: str, deadline: Deadline, notes: list[str]
) -> Opener:
    start, size = info.offset_data, info.size
    return lambda: buffered(_TarMember(contents, start, size, name, deadline, notes))


class _Checked:
    """A file of which nobody reads very much at once, whatever the file itself says."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_AT_ONCE_BYTES:
            # zipfile asks for the rest of the file where it looks for its end: 64 KiB at most.
            data = self._file.read(MOST_AT_ONCE_BYTES + 1)
            if size >= 0 or len(data) > MOST_AT_ONCE_BYTES:
                raise UnreadableInput(
                    f"{self._name} has headers that are too large for an archive of logs.",
                    "Unpack it, and name the logs.",
                )
            return data
        return self._file.read(size)


class _Forward:
    """Reads and jumps forwards only: through a file, or through what is unpacked on the way."""

    def __init__(self, opener: Opener, name: str) -> None:
        self._file = opener()
        self._checked = _Checked(self._file, name)
        self._name = name
        self._at = 0

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._at:
            raise UnreadableInput(
                f"{self._name} has a header that points backwards.", "Unpack it, and name the logs."
            )
        if self._file.seekable():
            self._at = self._file.seek(offset)
        while self._at < offset:
            skipped = len(self._file.read(min(offset - self._at, _SKIPPED_AT_ONCE)))
            if not skipped:
                break
            self._at += skipped
        return self._at

    def read(self, size: int = -1) -> bytes:
        data = self._checked.read(size)
        self._at += len(data)
        return data

    def close(self) -> None:
        self._file.close()


class _Shared:
    """One way through the archive for all members, begun anew when one lies behind."""

    def __init__(self, opener: Opener, name: str) -> None:
        self._opener = opener
        self._name = name
        self._forward: _Forward | None = None

    def read(self, offset: int, size: int) -> bytes:
        if self._forward is None or self._forward.tell() > offset:
            self._forward = _Forward(self._opener, self._name)
        if self._forward.seek(offset) != offset:
            raise EOFError
        data = self._forward.read(size)
        if not data:
            raise EOFError
        return data


class _TarMember(BoundedStream):
    def __init__(
        self,
        contents: _Shared,
        start: int,
        size: int,
        name: str,
        deadline: Deadline,
        notes: list[str],
    ) -> None:
        super().__init__(name, deadline, notes)
        self._contents = contents
        self._start = start
        self._size = size

    def _more(self, most_bytes: int) -> bytes:
        most_bytes = min(most_bytes, self._size - self._given_bytes)
        if most_bytes <= 0:
            return b""
        return self._contents.read(self._start + self._given_bytes, most_bytes)
