"""From what a person hands over to the logs in it.

In: files, folders, pipes; plain, compressed, packed into a zip or tar, or notebooks. Out: `Inputs`:
`Log`s and, apart from them, dumps of PyTorch's Flight Recorder, each with a name and a way to open
it, what was passed over and why, and what could not be read to its end. What a file is, is seen in
its first bytes, not in its name; only of a folder or an archive, where nobody chose each file, are
source files, settings and checkpoints passed over by name: a program that mentions an error did not
have it. Promises: nothing is written to the disk, nothing is followed out of a folder, everything
is bounded (see unpacking.py and archives.py).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rerail.errors import UnreadableInput
from rerail.evidence.text.file_heads import (
    HEAD_BYTES,
    Opener,
    archive_kind,
    buffered,
    compression_of,
    plain_name,
)
from rerail.evidence.text.flight_dumps import is_dump, is_dump_name
from rerail.evidence.text.notebooks import MOST_BYTES, is_notebook, printed_by
from rerail.evidence.text.scan import refuse_unless_text
from rerail.platform.deadline import Deadline, no_deadline

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_FILES = 40_000  # of a folder; a log for each rank of the largest jobs
MOST_DEPTH = 6
MOST_PIPED_ARCHIVE_BYTES = 256 << 20  # it is held in memory, since its list may stand at its end

_CHECKPOINTS = {
    *(".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".distcp", ".pkl", ".pickle", ".npy"),
    *(".npz", ".h5", ".hdf5", ".onnx", ".gguf", ".msgpack", ".pdparams", ".tfevents"),
}
_WRITTEN_BY_PEOPLE = {
    *(".py", ".pyx", ".pyi", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".go"),
    *(".js", ".ts", ".css", ".html", ".md", ".rst", ".tex", ".sh", ".sbatch", ".slurm", ".sql"),
    *(".toml", ".yaml", ".yml", ".ini", ".cfg", ".json", ".lock", ".diff", ".patch", ".csv"),
    *(".tsv", ".xml", ".svg"),
}
_NAMES_OF_SETTINGS = {"makefile", "dockerfile", "license", "requirements.txt", "readme.txt"}


@dataclass(frozen=True)
class Log:
    """A text with its name: all that `collect_logs` asks of a path."""

    name: str  # as an observation's source says it
    shown: str  # as a message says it
    opener: Opener

    def open(self, mode: str = "rb") -> BinaryIO:
        return self.opener()

    def __str__(self) -> str:
        return self.shown


@dataclass
class Inputs:
    deadline: Deadline
    logs: list[Log] = field(default_factory=list)
    dumps: list[Log] = field(default_factory=list)  # of PyTorch's Flight Recorder
    skipped: list[tuple[str, str]] = field(default_factory=list)  # name, why
    notes: list[str] = field(default_factory=list)  # what was not read to its end; grows on reading

    @property
    def incomplete(self) -> str:
        return "; ".join(self.notes[:3]) + "." if self.notes else ""


def find_inputs(paths: Sequence[Path], deadline: Deadline | None = None) -> Inputs:
    """The logs in all of these. UnreadableInput if there is none, or a file is not there."""
    finder = _Finder(deadline or no_deadline())
    for path in paths:
        finder.add_path(path)
    return finder.inputs()


def inputs_of_stream(stream: BinaryIO, name: str, seconds_for_archive: float) -> Inputs:
    """The logs in what comes through a pipe.

    How long that takes is up to who writes it; an archive has the seconds once it is all there.
    """
    finder = _Finder(no_deadline(), seconds_for_archive)
    finder.add_pipe(name, name, stream)
    return finder.inputs()


class _Finder:
    def __init__(self, deadline: Deadline, seconds_for_archive: float = 0.0) -> None:
        self._found = Inputs(deadline)
        self._seconds_for_archive = seconds_for_archive
        self._errors: list[UnreadableInput] = []

    def inputs(self) -> Inputs:
        found = self._found
        if found.logs or found.dumps:
            return found
        if len(self._errors) == 1:
            raise self._errors[0]
        names = ", ".join(f"{name} ({why})" for name, why in found.skipped[:5])
        more = f" and {len(found.skipped) - 5:,} more" if len(found.skipped) > 5 else ""
        raise UnreadableInput(
            f"there is no log in it. Passed over: {names}{more}." if names else "there is no log.",
            "Name the log file itself.",
        )

    def add_path(self, path: Path) -> None:
        try:
            if path.is_dir():
                self._add_folder(path)
            elif path.is_fifo():
                self.add_pipe(path.name, str(path), path.open("rb"))
            else:
                self._add(path.name, str(path), lambda: path.open("rb"))
        except OSError as error:
            self._refuse(path.name, _unreadable(path, error))

    def add_pipe(self, name: str, shown: str, stream: BinaryIO) -> None:
        head, again = _peek(stream)
        kind = compression_of(head)
        if kind is not None and archive_kind(_unpacked_head(head, kind, shown)) is None:
            found = self._found
            head, again = _peek(_unpacked(again, kind, shown, found.deadline, found.notes))
        elif kind is not None or archive_kind(head) is not None:
            again = self._whole(again, shown)
            if self._seconds_for_archive:
                self._found.deadline = Deadline(self._seconds_for_archive)
            raw = again.read()
            self._add(name, shown, lambda: io.BytesIO(raw))
            return
        self._add_text(name, shown, head, lambda: again)

    def _whole(self, stream: BinaryIO, shown: str) -> BinaryIO:
        raw = stream.read(MOST_PIPED_ARCHIVE_BYTES + 1)
        if len(raw) > MOST_PIPED_ARCHIVE_BYTES:
            raise UnreadableInput(
                f"{shown} is an archive of more than {MOST_PIPED_ARCHIVE_BYTES >> 20} MiB.",
                "Save it, and type: rerail explain FILE",
            )
        return io.BytesIO(raw)

    def _add_folder(self, folder: Path) -> None:
        count = 0
        for path in _files_in(folder):
            if self._found.deadline.skips(f"{path.name} and the files after it"):
                return
            count += 1
            if count > MOST_FILES:
                self._found.notes.append(f"{folder} holds more than {MOST_FILES:,} files")
                return
            name = plain_name(path.relative_to(folder).as_posix())
            if why := "no file" if not path.is_file() else _told_by_name(path.name):
                self._skip(name, why)
                continue
            if path.is_symlink() and path.resolve().is_relative_to(folder.resolve()):
                continue  # it is read by its own name
            try:
                self._add(name, str(path), _opener_of(path))
            except OSError as error:
                self._refuse(name, _unreadable(path, error))
        if not count:
            raise UnreadableInput(f"{folder} holds no files.", "Name a log file or a run.")

    def _add(self, name: str, shown: str, opener: Opener) -> None:
        """One file that can be opened as often as needed."""
        with opener() as file:
            head = file.read(HEAD_BYTES)
        try:
            self._add_bytes(name, shown, head, opener, is_member=False)
        except UnreadableInput as error:
            self._refuse(name, error)

    def _add_bytes(
        self, name: str, shown: str, head: bytes, opener: Opener, *, is_member: bool
    ) -> None:
        found = self._found
        kind = compression_of(head)
        if kind is not None:
            packed, kept = opener, kind

            def unpacked() -> BinaryIO:
                return _unpacked(packed(), kept, shown, found.deadline, found.notes)

            head = _unpacked_head(head, kind, shown)
            if not head:  # a block of bzip2 is larger than that
                with unpacked() as file:
                    head = file.read(HEAD_BYTES)
            opener = unpacked
        packed_as = archive_kind(head)
        if packed_as is None:
            self._add_text(name, shown, head, opener)
        elif is_member or (kind is not None and packed_as == "zip"):
            self._skip(name, "an archive inside an archive")
        else:
            self._add_archive(packed_as, shown, opener)

    def _add_archive(self, kind: str, shown: str, opener: Opener) -> None:
        from rerail.evidence.text.archives import members_of

        found = self._found
        for member in members_of(kind, opener, shown, found.deadline, found.notes):
            base = member.name.rpartition("/")[2]
            why = member.why_not or _told_by_name(base) or ("hidden" if base[:1] == "." else "")
            if why or member.opener is None:
                self._skip(member.name, why)
                continue
            head = member.head
            if head is None:
                with member.opener() as file:
                    head = file.read(HEAD_BYTES)
            try:
                self._add_bytes(member.name, member.name, head, member.opener, is_member=True)
            except UnreadableInput as error:
                self._refuse(member.name, error)

    def _add_text(self, name: str, shown: str, head: bytes, opener: Opener) -> None:
        if is_dump(head):
            self._found.dumps.append(Log(name, shown, opener))
            return
        if is_notebook(head):
            opener = _notebook(shown, opener)
        elif (text := head.lstrip(b"\0")).strip() or len(head) < HEAD_BYTES - 1:
            try:
                refuse_unless_text(text, shown)  # logrotate may leave zeros at the beginning
            except UnreadableInput as error:
                self._refuse(name, error, "not text" if text.strip() else "empty")
                return
        self._found.logs.append(Log(name, shown, opener))

    def _refuse(self, name: str, error: UnreadableInput, why: str = "") -> None:
        self._errors.append(error)
        self._skip(name, why or error.message.rstrip("."))

    def _skip(self, name: str, why: str) -> None:
        self._found.skipped.append((name, why))


def _notebook(shown: str, opener: Opener) -> Opener:
    with opener() as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise UnreadableInput(f"{shown} has more than {MOST_BYTES >> 20} MiB.", "Export it.")
    text = printed_by(raw, shown)
    if not text.strip():
        raise UnreadableInput(
            f"{shown} is a notebook without outputs: nothing that it printed is in it.",
            "Save it after it has run, or run it as: rerail run -- jupyter execute FILE",
        )
    return lambda: io.BytesIO(text)


def _unreadable(path: Path, error: OSError) -> UnreadableInput:
    return UnreadableInput(
        f"{path}: {error.strerror or error}",
        "Name a log file, a run id, or `-` for standard input.",
    )


def _opener_of(path: Path) -> Opener:
    return lambda: path.open("rb")


def _files_in(folder: Path) -> Iterator[Path]:
    """By name; not what is hidden, not through links to other folders."""
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        hidden = [name for name in folders if name.startswith(".") or name == "__pycache__"]
        folders[:] = sorted(set(folders) - set(hidden)) if depth < MOST_DEPTH else []
        for name in sorted(files):
            if not name.startswith("."):
                yield Path(here, name)


def _told_by_name(name: str) -> str:
    """Why a file that nobody chose is no log; empty if its bytes have to tell."""
    if is_dump_name(name):
        return ""
    suffix = Path(name).suffix.lower()
    if suffix in _CHECKPOINTS or ".tfevents." in name:
        return "a checkpoint or other data"
    if suffix in _WRITTEN_BY_PEOPLE or name.lower() in _NAMES_OF_SETTINGS:
        return "source, settings or tables"
    return ""


def _unpacked(
    stream: BinaryIO, kind: str, shown: str, deadline: Deadline, notes: list[str]
) -> BinaryIO:
    from rerail.evidence.text.unpacking import Unpacked

    return buffered(Unpacked(stream, kind, shown, deadline, notes))


def _unpacked_head(head: bytes, kind: str, shown: str) -> bytes:
    """The first bytes of what is packed in these."""
    with _unpacked(io.BytesIO(head), kind, shown, no_deadline(), []) as file:
        return file.read(HEAD_BYTES)


def _peek(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes of a pipe, and the whole of it once more."""
    head = b""
    while len(head) < HEAD_BYTES and (data := stream.read(HEAD_BYTES - len(head))):
        head += data
    return head, buffered(_Again(head, stream))


class _Again(io.RawIOBase):
    """What was read of a pipe, then the rest; closing it leaves the pipe open."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._head[: len(view)] or self._rest.read(len(view)) or b""
        self._head = self._head[len(data) :]
        view[: len(data)] = data
        return len(data)
