"""Does NumPy map this file or load it, and what does it take in memory? Measured, not assumed.

In: an .npz or .npy file, and an interpreter (the target's, which may have NumPy). Out: an
`ArrayFile`. The file's own headers tell what is stored how; a short process then does what a
program would do, numpy.load with mmap_mode and the first access of every array, and says by how
much its memory grew. Promises: the file is only read; what would not fit in free memory is not
loaded, and the answer says that it was reckoned instead.
"""

from __future__ import annotations

import ast
import json
import math
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rerail.errors import UnreadableInput
from rerail.platform.patterns import linear
from rerail.preflight.audit.finding import Finding, Level
from rerail.wording import bytes_in_words

_MAGIC = b"\x93NUMPY"
_MOST_HEADER_BYTES = 1 << 20
_SHARE_OF_FREE = 0.6
_ITEM = linear(r"[<>|=]?([a-zA-Z])(\d*)(?:\[\w+\])?")
_OBJECT = linear(r"(?:^|')\|O\d*(?:$|')")  # alone, or as the type of a field

# What a program does, and how its memory grew: [private bytes, bytes of the mapped file].
_PROBE = """
import json, sys, time
def now():
    found = {}
    for line in open("/proc/self/status"):
        if line.startswith(("RssAnon", "RssFile")):
            found[line[:7]] = int(line.split()[1]) * 1024
    return found
path, begun = sys.argv[1], time.monotonic()
try:
    import numpy
    before, kept = now(), []
    opened = numpy.load(path, mmap_mode="r", allow_pickle=False)
    names = opened.files if hasattr(opened, "files") else [None]
    for name in names:
        array = opened if name is None else opened[name]
        step = max(1, 4096 // max(1, array.dtype.itemsize))
        array.reshape(-1)[::step].max() if array.dtype.kind in "biuf" and array.size else None
        kept.append(array)
    by = "numpy " + numpy.__version__
except ImportError:
    import zipfile
    before, kept, by = now(), [], "zipfile"
    with zipfile.ZipFile(path) as archive:
        kept = [archive.read(name) for name in archive.namelist()]
after = now()
print(json.dumps({"by": by, "private": after["RssAnon"] - before["RssAnon"],
                  "file": after["RssFile"] - before["RssFile"],
                  "seconds": time.monotonic() - begun}))
"""


@dataclass(frozen=True)
class Member:
    name: str
    shape: tuple[int, ...]
    dtype: str
    memory_bytes: int
    stored_bytes: int
    is_compressed: bool

    @property
    def has_objects(self) -> bool:
        return _OBJECT.search(self.dtype) is not None


@dataclass(frozen=True)
class ArrayFile:
    path: str
    disk_bytes: int
    members: tuple[Member, ...]
    is_archive: bool
    private_bytes: int | None = None  # measured after first access of every array
    mapped_bytes: int | None = None
    seconds: float | None = None
    note: str = ""

    @property
    def memory_bytes(self) -> int:
        return sum(member.memory_bytes for member in self.members)

    @property
    def is_compressed(self) -> bool:
        return any(member.is_compressed for member in self.members)

    @property
    def is_loaded(self) -> bool:
        """NumPy never maps what is inside an archive, whatever mmap_mode says."""
        return self.is_archive or self.has_objects

    @property
    def has_objects(self) -> bool:
        """Pickled: to be read only from somebody who is trusted, so it is not measured either."""
        return any(member.has_objects for member in self.members)

    def in_one_line(self) -> str:
        name = Path(self.path).name
        how = "compressed" if self.is_compressed else "stored uncompressed"
        size = bytes_in_words(
            self.private_bytes if self.private_bytes is not None else self.memory_bytes
        )
        basis = "measured" if self.private_bytes is not None else "by its headers"
        disk = bytes_in_words(self.disk_bytes)
        if not self.is_archive and self.has_objects:
            return f"{name}: Python objects, which are loaded, never mapped: {disk} on disk"
        if not self.is_archive:
            return (
                f"{name}: mappable (mmap_mode='r'): {size} of private memory after first access"
                f" ({basis}); loaded without it: {bytes_in_words(self.memory_bytes)}"
            )
        can = "its arrays could be mapped in place by their offset"
        if self.is_compressed:
            can = "cannot be mapped"
        elif self.has_objects:
            can = "holds Python objects, which cannot be mapped and take more than that"
        return (
            f"{name}: {how}, {disk} on disk; numpy.load loads it whatever mmap_mode says: {size} in"
            f" memory after first access ({basis}); {can}"
        )

    def finding(self, room_bytes: int | None) -> Finding:
        level: Level = "fine"
        why = ""
        do: tuple[str, ...] = ()
        needed = self.private_bytes if self.private_bytes is not None else self.memory_bytes
        if self.is_archive and room_bytes is not None and needed > 0.5 * room_bytes:
            level = "fatal" if needed > room_bytes else "risky"
            why = f"{bytes_in_words(room_bytes)} are free on this machine."
            do = (
                "save each array as .npy and open it with mmap_mode='r'",
                "or np.savez instead of np.savez_compressed, and map the arrays by their offset",
            )
        return Finding("host-oom", level, self.in_one_line(), why, do, (self.path,))

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "disk_bytes": self.disk_bytes,
            "memory_bytes": self.memory_bytes,
            "is_compressed": self.is_compressed,
            "is_loaded": self.is_loaded,
            "is_mappable": not (self.has_objects or (self.is_archive and self.is_compressed)),
            "measured_private_bytes": self.private_bytes,
            "measured_mapped_bytes": self.mapped_bytes,
            "seconds": self.seconds,
            "note": self.note,
            "text": self.in_one_line(),
            "arrays": [{**vars(member), "shape": list(member.shape)} for member in self.members],
        }


def read_array_file(path: Path) -> ArrayFile:
    """What the headers say; nothing is loaded."""
    try:
        size = path.stat().st_size
    except OSError as error:
        what = "there is no file" if isinstance(error, FileNotFoundError) else "cannot read"
        raise UnreadableInput(
            f"{what} {path}", "Check its name, and that you may read it."
        ) from None
    try:
        if zipfile.is_zipfile(path):
            return ArrayFile(str(path), size, _archive_members(path), is_archive=True)
        with path.open("rb") as file:
            shape, dtype, memory = _read_header(file)
    except (OSError, zipfile.BadZipFile, ValueError, SyntaxError, EOFError) as error:
        raise UnreadableInput(
            f"{path} cannot be read as NumPy arrays: {_why_not(path, error)}",
            "It should be what numpy.save or numpy.savez wrote.",
        ) from error
    member = Member(path.stem, shape, dtype, memory, memory, is_compressed=False)
    return ArrayFile(str(path), size, (member,), is_archive=False)


def _why_not(path: Path, error: Exception) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as unreadable:
        return unreadable.strerror or str(unreadable)
    if not head:
        return "it is empty"
    # An archive's directory is at its end: what was cut off while it was written or copied.
    return "an archive that is cut short" if head == b"PK\x03\x04" else str(error)


def _archive_members(path: Path) -> tuple[Member, ...]:
    found = []
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            with archive.open(entry) as file:
                shape, dtype, memory = _read_header(file)
            found.append(
                Member(
                    entry.filename.removesuffix(".npy"),
                    shape,
                    dtype,
                    memory,
                    entry.compress_size,
                    entry.compress_type != zipfile.ZIP_STORED,
                )
            )
    return tuple(found)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], str, int]:
    """Shape, type and bytes of an array from its .npy header."""
    head = file.read(8)
    if len(head) < 8 or head[:6] != _MAGIC:
        raise ValueError("no NumPy header")
    count = 2 if head[6] == 1 else 4
    length = int.from_bytes(file.read(count), "little")
    if length > _MOST_HEADER_BYTES:
        raise ValueError("a header of impossible length")
    header = ast.literal_eval(file.read(length).decode("latin-1").strip())
    if not isinstance(header, dict):
        raise ValueError("no NumPy header")
    shape = tuple(int(side) for side in header["shape"])
    return shape, str(header["descr"]), math.prod(shape) * _item_bytes(header["descr"])


def _item_bytes(descr: Any) -> int:
    if isinstance(descr, list):  # a record: fields may have shapes of their own
        return sum(_item_bytes(f[1]) * math.prod(f[2] if len(f) > 2 else ()) for f in descr)
    found = _ITEM.fullmatch(str(descr))
    if found is None:
        raise ValueError(f"an unknown type {descr!r}")
    kind, count = found[1], int(found[2] or 1)
    return 4 * count if kind == "U" else (8 if kind == "O" else count)


def measure(
    file: ArrayFile, interpreters: Sequence[str], room_bytes: int | None, seconds: float = 300.0
) -> ArrayFile:
    """Load it as a program would, in a process of its own, if it fits in free memory."""
    import dataclasses

    if room_bytes is not None and file.memory_bytes > _SHARE_OF_FREE * room_bytes:
        return dataclasses.replace(file, note="not loaded: it would take most of the free memory")
    for interpreter in interpreters:
        try:
            done = subprocess.run(
                [interpreter, "-I", "-c", _PROBE, file.path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=True,
            )
            answer = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            continue
        return dataclasses.replace(
            file,
            private_bytes=int(answer["private"]),
            mapped_bytes=int(answer["file"]),
            seconds=round(float(answer["seconds"]), 2),
            note=f"loaded by {answer['by']}",
        )
    return dataclasses.replace(file, note="not measured: no interpreter here could load it")
