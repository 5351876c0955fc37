"""Arrays in an .npz archive, used where they lie on disk.

Comes in: the path of an archive written with `numpy.savez` or `ArchiveWriter`. Goes out: read-only
arrays over the file's own bytes. Nothing is read until it is touched, and what was touched belongs
to the page cache, which the kernel may take back. `numpy.load` cannot do this: for .npz it ignores
`mmap_mode` and reads a whole member into memory at the first access.

Promises: never unpickles; a member that cannot be mapped is refused with its name and the reason.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from twotower.errors import BadDataError

Array = npt.NDArray[Any]

ALIGNMENT = 64  # a cache line; numpy.savez leaves members at odd addresses, which forces a copy
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # of a zip member: 30 bytes, then name, then extra
_PADDING_FIELD = 0xD935  # extra-field id that zipalign uses for the same purpose
_ZIP64_FIELD_BYTES = 20  # what zipfile itself adds to the local header with force_zip64


def map_archive(path: Path) -> dict[str, Array]:
    """Every array of the archive, mapped in place."""
    if not path.exists():
        raise BadDataError(path, "no such file", do="make data with: twotower prepare --help")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile:
        raise _describe_damage(path) from None
    with path.open("rb") as file:
        return {_array_name(info.filename): _map_member(path, file, info) for info in members}


def _array_name(filename: str) -> str:
    return filename.removesuffix(".npy")


def _map_member(path: Path, file: BinaryIO, info: zipfile.ZipInfo) -> Array:
    name = _array_name(info.filename)
    if info.compress_type != zipfile.ZIP_STORED:
        raise BadDataError(
            path,
            f"the array is compressed ({info.file_size / 1e9:.1f} GB when read), "
            "so it cannot be mapped in place",
            name,
            do=f"store it uncompressed, once:\n  twotower unpack {path} {path.stem}-stored.npz",
        )
    file.seek(info.header_offset)
    shape, dtype, offset = _read_npy_header(path, file, name)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    end_of_file = os.fstat(file.fileno()).st_size
    if offset + size > end_of_file:
        raise _cut_short(path, name, shape, dtype, offset, end_of_file)
    if size == 0:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape)


def _read_npy_header(
    path: Path, file: BinaryIO, name: str
) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, dtype and offset of the first value; the file stands at a zip member's header."""
    start = file.tell()
    *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(start + _LOCAL_HEADER.size + name_bytes + extra_bytes)
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, dtype = read(file)
    except ValueError as error:
        raise BadDataError(path, f"not a NumPy array ({error})", name) from None
    if dtype.hasobject:
        raise BadDataError(
            path, "holds Python objects; pickles are never loaded, store plain numbers", name
        )
    if is_fortran and len(shape) > 1:
        raise BadDataError(
            path, "is stored column by column; save numpy.ascontiguousarray(array) instead", name
        )
    return shape, dtype, file.tell()


def _cut_short(
    path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, end: int
) -> BadDataError:
    row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
    rows = max(0, end - offset) // max(1, row_bytes)
    return BadDataError(
        path,
        f"the file is cut short here: {shape[0]:,} rows announced, {rows:,} are there",
        name,
        rows,
        do="write or copy it again and compare sizes; a full disk ends a copy like this",
    )


def _describe_damage(path: Path) -> BadDataError:
    """A zip's table of contents is at its end; without it, walk the members to the break."""
    end = path.stat().st_size
    with path.open("rb") as file:
        start = 0
        while start + _LOCAL_HEADER.size <= end:
            file.seek(start)
            magic, *_, name_bytes, _extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if magic != b"PK\x03\x04":
                break
            name = _array_name(file.read(name_bytes).decode("utf-8", "replace"))
            file.seek(start)
            try:
                shape, dtype, offset = _read_npy_header(path, file, name)
            except (BadDataError, struct.error):
                break
            start = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            if start > end:
                return _cut_short(path, name, shape, dtype, offset, end)
    return BadDataError(
        path,
        f"not a whole .npz archive: the table of contents at its end is missing ({end:,} bytes)",
        do="write or copy it again and compare sizes; a full disk ends a copy like this",
    )


class ArchiveWriter:
    """Writes an uncompressed .npz row by row, so that data larger than memory can be made.

    Members begin on a cache line. The file has its name only once it is whole and on disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(path.name + ".partial")
        self._file = self._partial.open("wb")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED, allowZip64=True)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            self._partial.replace(self.path)
        else:
            self._partial.unlink()

    @contextmanager
    def member(self, name: str, shape: tuple[int, ...], dtype: Any) -> Iterator[RowSink]:
        """A sink for the rows of one array, which have to add up to `shape`."""
        info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
        header_bytes = _LOCAL_HEADER.size + len(info.filename) + _ZIP64_FIELD_BYTES
        padding = -(self._file.tell() + header_bytes + 4) % ALIGNMENT
        info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
        with self._zip.open(info, "w", force_zip64=True) as out:
            np.lib.format.write_array_header_1_0(
                out,
                {
                    "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
                    "fortran_order": False,
                    "shape": shape,
                },
            )
            sink = RowSink(out, shape, np.dtype(dtype))
            yield sink
        if sink.rows != shape[0]:
            raise ValueError(f"{name}: {sink.rows} rows written, {shape[0]} announced")

    def write(self, name: str, array: Array) -> None:
        with self.member(name, array.shape, array.dtype) as sink:
            sink.append(array)


class RowSink:
    def __init__(self, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._out, self._row_shape, self._dtype = out, shape[1:], dtype
        self.rows = 0

    def append(self, rows: Array) -> None:
        if rows.shape[1:] != self._row_shape:
            raise ValueError(f"rows of {rows.shape[1:]} into an array of {self._row_shape}")
        self._out.write(np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8).data)
        self.rows += len(rows)


def unpack_archive(source: Path, target: Path, chunk_bytes: int = 1 << 24) -> None:
    """Rewrites a compressed archive as one that can be mapped, in bounded memory."""
    with zipfile.ZipFile(source) as archive, ArchiveWriter(target) as writer:
        for info in archive.infolist():
            name = _array_name(info.filename)
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, is_fortran, dtype = read(member)
                if dtype.hasobject or (is_fortran and len(shape) > 1):
                    raise BadDataError(source, "Python objects or column order", name)
                row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
                chunk_rows = max(1, chunk_bytes // max(1, row_bytes))
                with writer.member(name, shape, dtype) as sink:
                    while sink.rows < shape[0]:
                        rows = min(chunk_rows, shape[0] - sink.rows)
                        block = np.frombuffer(member.read(rows * row_bytes), dtype)
                        sink.append(block.reshape(rows, *shape[1:]))
