"""Would this checkpoint load? Found out without executing anything in it.

In: a path, of a file or a folder. Out: `Soundness`: what it is and, if it would not load, why.
Promises: never a traceback, whatever the bytes; time bounded by the size and memory by a gigabyte
at any size; nothing is unpickled, imported or written. What could not be looked at within these
bounds is said. What each format is checked for: docs/restart.md.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path

from rerail.checkpoints.formats import Reading, Torn, Unfinished
from rerail.checkpoints.formats.budget import Budget
from rerail.checkpoints.formats.content import (
    COMPRESSED,
    HEAD_BYTES,
    PICKLE_SIGNATURES,
    ZIP_SIGNATURE,
    Check,
    is_packed,
    is_tar,
    reader_of_content,
)
from rerail.checkpoints.formats.streams import check_compressed, check_json, check_tar
from rerail.checkpoints.formats.tensors import (
    HDF5_SIGNATURE,
    NPY_SIGNATURE,
    check_hdf5,
    check_safetensors,
    looks_like_safetensors,
)
from rerail.checkpoints.formats.zip_archive import check_zip, check_zips
from rerail.checkpoints.parts import METADATA, check_parts
from rerail.checkpoints.search import Search

UNKNOWN = "file of another kind"
NOT_CHECKED = "not checked to the end:"
_BUFFER_BYTES = 1 << 16  # opcodes are read one by one
_LFS_POINTER = b"version https://git-lfs"
# Names that promise one of the formats above: anything else in such a file is damage.
_PROMISING = {".pt", ".pth", ".ckpt", ".npz", ".npy", ".safetensors", ".h5", ".hdf5", ".keras"}
_NAMES_OF_PICKLES = {".pkl", ".pickle"}
_DISTRIBUTED_SUFFIX = ".distcp"
_INDEX_SUFFIX = ".index.json"  # of sharded weights: names the files that belong together
_LARGEST_INDEX_BYTES = 16 << 20
_MOST_FILES = 100_000
_FOREIGN_NAMED = 3


@dataclass(frozen=True)
class Soundness:
    path: Path
    kind: str
    problem: str | None = None
    size_bytes: int = 0
    modified_ns: int = 0
    unchecked: str | None = None  # what could not be looked at
    foreign: frozenset[str] = frozenset()  # the program's own classes, which loading would call

    @property
    def is_sound(self) -> bool:
        return self.problem is None

    @property
    def remarks(self) -> list[str]:
        """What the user should know of one that is sound."""
        said = [f"{NOT_CHECKED} {self.unchecked}"] if self.unchecked else []
        if self.foreign:
            names = sorted(self.foreign)
            more = len(names) - _FOREIGN_NAMED
            words = ", ".join(names[:_FOREIGN_NAMED]) + (f" and {more} more" if more > 0 else "")
            said.append(f"holds objects of {words}; not executed, structure sound")
        return said


def check_checkpoint(path: Path) -> Soundness:
    """Whether the checkpoint at `path` holds together."""
    kind, size, modified = "checkpoint", 0, 0
    try:
        status = path.stat()
        size, modified = status.st_size, status.st_mtime_ns
        if stat.S_ISDIR(status.st_mode):
            files = _files_of(path)
            size = sum(each.stat().st_size for each in files)
            modified = max((each.stat().st_mtime_ns for each in files), default=modified)
            found = _check_folder(path, files, Budget(size))
        elif stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            found = _check_file(path, size, Budget(size))
        else:
            raise Torn("it is neither a file nor a folder")
    except Torn as torn:
        return Soundness(path, kind, str(torn), size, modified)
    except Unfinished as why:
        # Of a pickle or a directory: what comes behind could be anything, and is not handed on.
        return Soundness(path, kind, f"{NOT_CHECKED} {why}", size, modified)
    except OSError as error:
        return Soundness(path, kind, error.strerror or str(error), size, modified)
    except Exception as error:
        # Bytes that no reader foresaw: the file is at fault, and the search has to go on.
        return Soundness(path, kind, f"it cannot be read ({type(error).__name__})", size, modified)
    return Soundness(path, found.kind, None, size, modified, found.unchecked, found.foreign)


def _check_file(path: Path, size: int, budget: Budget) -> Reading:
    if size == 0:
        raise Torn("it is empty")
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        head = file.read(HEAD_BYTES)
        file.seek(0)
        reader = _reader_for(path, head, size)
        if reader is not None:
            return reader(file, size, budget)
        if head.startswith(_LFS_POINTER):
            raise Torn("it is a Git LFS pointer, not the file itself")
        if not head.strip(b"\0"):
            raise Torn("it begins with nothing but zeros")
        if path.suffix.lower() in _PROMISING or _is_beginning_of_signature(head):
            raise Torn(f"it does not begin as a {path.suffix or 'checkpoint'} file does")
        file.seek(max(0, size - HEAD_BYTES))
        if size > HEAD_BYTES and not file.read().strip(b"\0"):
            raise Torn("it ends in nothing but zeros")
    if is_packed(head):
        return Reading(UNKNOWN, "what it holds, which is compressed")
    is_pickle = path.suffix.lower() in _NAMES_OF_PICKLES  # perhaps of protocol 0, or encrypted
    return Reading(UNKNOWN, "what it holds" if is_pickle else None)


def _reader_for(path: Path, head: bytes, size: int) -> Check | None:
    """By content; the name only where the content has no signature."""
    suffix = path.suffix.lower()
    if head.startswith((ZIP_SIGNATURE, b"PK\x05\x06")):
        return check_zips if suffix == _DISTRIBUTED_SUFFIX else check_zip
    if (reader := reader_of_content(head)) is not None:
        return reader
    if head.startswith(HDF5_SIGNATURE):
        return check_hdf5
    if suffix == ".safetensors" or looks_like_safetensors(head, size):
        return check_safetensors
    if suffix == ".json":
        return check_json
    if head.startswith(tuple(COMPRESSED)):
        return check_compressed
    if is_tar(head):
        return check_tar
    return None


def _is_beginning_of_signature(head: bytes) -> bool:
    signatures = (ZIP_SIGNATURE, *PICKLE_SIGNATURES, HDF5_SIGNATURE, NPY_SIGNATURE, *COMPRESSED)
    return any(len(head) < len(each) and each.startswith(head) for each in signatures)


def _files_of(folder: Path) -> list[Path]:
    search = Search(_MOST_FILES)
    files = sorted(search.files_below(folder))
    if search.cut_short:
        raise Unfinished(f"the search in the folder was too large: {search.cut_short}")
    return files


def _check_folder(path: Path, files: list[Path], budget: Budget) -> Reading:
    """A checkpoint of several files is as sound as the worst of them."""
    if not files:
        raise Torn("the folder is empty")
    unchecked, foreign = None, frozenset[str]()
    for file in files:
        size = file.stat().st_size
        name = file.relative_to(path)
        # Empty markers and logs are everyday; a known format has to hold together.
        if size == 0 and file.suffix.lower() not in _PROMISING | {".json", ".bin"}:
            continue
        try:
            found = _check_file(file, size, budget)
        except Torn as torn:
            raise Torn(f"{name}: {torn}") from None
        except Unfinished as why:
            raise Unfinished(f"{name}: {why}") from None
        foreign |= found.foreign
        if found.unchecked and not unchecked:
            unchecked = f"{name}: {found.unchecked}"
        if file.name.endswith(_INDEX_SUFFIX) and size <= _LARGEST_INDEX_BYTES:
            _check_shards(file)
    is_distributed = any(file.suffix == _DISTRIBUTED_SUFFIX for file in files)
    if is_distributed and not any(file.name == METADATA for file in files):
        raise Torn(f"{METADATA} is missing: the save did not come to its end")
    unlooked = check_parts(path, files, budget)
    return Reading("folder of files", unchecked or unlooked, foreign)


def _check_shards(index: Path) -> None:
    weights = json.loads(index.read_bytes()).get("weight_map", {})
    for name in sorted(set(map(str, weights.values()))):
        if not (index.parent / name).is_file():
            raise Torn(f"{name}, which {index.name} names, is missing")
