"""One process as /proc shows it: a pid and a start time in, its vitals out.

Promises: a process that is gone, a zombie or a reused pid raises ProcessGone and nothing else;
`read_resident` is one system call on a descriptor that stays open (1.3 µs, against 5.4 µs with
open and close), so 40 processes at 10 Hz cost less than a thousandth of a core. An open
descriptor of /proc/PID/… belongs to that process for ever: when the pid is reused it answers
ESRCH, never with the newcomer's values. smaps_rollup walks the page tables (20 ms for 1 GB of
4 kB pages): only `read_shared_out` reads it, for a caller who keeps an account of the cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rerail.vitals_columns import PROCESS_COLUMNS, Column

PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND: int = os.sysconf("SC_CLK_TCK")
THOUSAND = 1000
RESIDENT_SOURCE, SHARED_OUT_SOURCE = "statm", "smaps_rollup"

# Five descriptors per reader: with 80 readers the recorder stays far below the usual limit of
# 1024. Readers beyond that open and close their files each time, which is slower and right.
MOST_READERS_WITH_OPEN_FILES = 80
_readers_with_open_files = 0


class ProcessGone(Exception):
    """The process has ended, or the pid now belongs to another one."""


class StatFields(NamedTuple):
    """What /proc/PID/stat says that is of use here."""

    name: str
    state: str
    parent_pid: int
    minor_faults: int
    major_faults: int
    cpu_ticks: int
    threads: int
    start_ticks: int

    @property
    def is_over(self) -> bool:
        """It has ended and waits for its parent to ask how."""
        return self.state in "ZX"


def parse_stat(text: bytes) -> StatFields:
    """Read /proc/PID/stat; the name may hold spaces, parentheses and newlines."""
    open_at, close_at = text.find(b"("), text.rfind(b")")
    if open_at < 0 or close_at < open_at:
        raise ValueError("not a stat line")
    fields = text[close_at + 1 :].split()
    return StatFields(
        name=text[open_at + 1 : close_at].decode(errors="replace"),
        state=fields[0].decode(),
        parent_pid=int(fields[1]),
        minor_faults=int(fields[7]),
        major_faults=int(fields[9]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def find_number(text: bytes, label: bytes) -> int | None:
    """The number after `label` at the beginning of a line; a tenth of a regex's cost."""
    if text.startswith(label):
        begin = len(label)
    else:
        at = text.find(b"\n" + label)
        if at < 0:
            return None
        begin = at + 1 + len(label)
    end = text.find(b"\n", begin)
    words = text[begin : end if end >= 0 else len(text)].split(None, 1)
    try:
        return int(words[0])
    except (IndexError, ValueError):
        return None


Reader = Callable[[Any], int | None]


def _number_after(label: bytes, times: int, *, if_absent: int | None) -> Reader:
    def read(text: bytes) -> int | None:
        found = find_number(text, label)
        return if_absent if found is None else found * times

    return read


# Columns that are more than a number behind a label: `stat` comes parsed, `fd` as the number of
# descriptors, any other file of /proc/PID as its text. None keeps the value before. A column in
# fractions is in whole thousandths here, so that sums stay exact.
READERS: dict[str, Reader] = {
    "threads": lambda stat: stat.threads,
    "fds": lambda count: count,
    "cpu_seconds": lambda stat: stat.cpu_ticks * THOUSAND // TICKS_PER_SECOND,
    "minor_faults": lambda stat: stat.minor_faults,
    "major_faults": lambda stat: stat.major_faults,
}


def reader_of(column: Column) -> Reader:
    if column.name in READERS:
        return READERS[column.name]
    # Without its line a process has none of it now; what it has used in total stays what it was.
    if_absent = 0 if column.kind == "gauge" else None
    return _number_after(column.label.encode(), column.times, if_absent=if_absent)


_READERS_OF: dict[str, list[tuple[str, Reader]]] = {"stat": []}
for _column in PROCESS_COLUMNS:
    if _column.source not in (RESIDENT_SOURCE, SHARED_OUT_SOURCE):
        _READERS_OF.setdefault(_column.source, []).append((_column.name, reader_of(_column)))

# Beside `stat`, which every visit reads: a visit to one of many processes reads half of them.
SOURCES: tuple[str, ...] = tuple(source for source in _READERS_OF if source != "stat")
HALVES: tuple[tuple[str, ...], tuple[str, ...]] = (
    tuple(source for source in SOURCES if source != "status"),
    tuple(source for source in SOURCES if source == "status"),
)
# What changes slowly, or costs more to read, by column: about once a second.
Detail = dict[str, int]
NO_DETAIL: Detail = {name: 0 for found in _READERS_OF.values() for name, _ in found}


class SharedOut(NamedTuple):
    """The memory of a process by kind: resident, and with the pages that it shares shared out."""

    rss_anon_bytes: int
    rss_file_bytes: int
    rss_shared_bytes: int
    pss_anon_bytes: int
    pss_file_bytes: int
    pss_shared_bytes: int
    private_bytes: int = 0  # that nobody else has, and that were written to

    @property
    def rss_bytes(self) -> int:
        return self.rss_anon_bytes + self.rss_file_bytes + self.rss_shared_bytes


def read_shared_out(pid: int) -> SharedOut | None:
    """None where the kernel does not tell: before Linux 5.4, another user's, a process gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 (on the hot path)
            rollup = file.read()
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            status = file.read()
    except OSError:
        return None
    labels = (b"Rss:", b"Anonymous:", b"Pss_Anon:", b"Pss_File:", b"Pss_Shmem:")
    found = [find_number(rollup, label) for label in labels]
    numbers = [number * 1024 for number in found if number is not None]
    if len(numbers) < len(labels):
        return None
    rss, anon, pss_anon, pss_file, pss_shared = numbers
    shared = min((find_number(status, b"RssShmem:") or 0) * 1024, rss - anon)
    private = (find_number(rollup, b"Private_Dirty:") or 0) * 1024
    return SharedOut(anon, rss - anon - shared, shared, pss_anon, pss_file, pss_shared, private)


def fork_source(pid: int) -> int:
    """The process whose memory this one was forked with; 0 if it has begun a program of its own.

    A new program gets a stack at a random place; a fork keeps its parent's. Where the kernel does
    not tell the place (another user's process) the answer is 0 too.
    """
    try:
        parent_pid, place = _parent_and_stack(pid)
        return parent_pid if place > 1 and _parent_and_stack(parent_pid)[1] == place else 0
    except (OSError, IndexError, ValueError):
        return 0


def _parent_and_stack(pid: int) -> tuple[int, int]:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (on the hot path)
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[1]), int(fields[25])


class ProcessReader:
    """Reads one living process again and again."""

    __slots__ = ("_fds", "_folder", "_keeps_open", "_statm_raw", "pid", "start_ticks")

    def __init__(self, pid: int, start_ticks: int) -> None:
        global _readers_with_open_files
        self.pid = pid
        self.start_ticks = start_ticks
        self._folder = f"/proc/{pid}/"
        self._fds: dict[str, int] = {}
        self._statm_raw = b""
        self._keeps_open = _readers_with_open_files < MOST_READERS_WITH_OPEN_FILES
        _readers_with_open_files += self._keeps_open
        try:
            self._check_identity(parse_stat(self._read("stat")))
        except (ProcessGone, OSError):
            self.close()
            raise

    def _check_identity(self, stat: StatFields) -> None:
        if self.start_ticks and stat.start_ticks != self.start_ticks:
            raise ProcessGone(self.pid)

    def close(self) -> None:
        global _readers_with_open_files
        _readers_with_open_files -= self._keeps_open
        self._keeps_open = False
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def _read(self, name: str) -> bytes:
        try:
            fd = self._fds.get(name, -1)
            if fd >= 0:
                return os.pread(fd, 4096, 0)
            fd = os.open(self._folder + name, os.O_RDONLY)
            if self._keeps_open:
                self._fds[name] = fd
                return os.pread(fd, 4096, 0)
            try:
                return os.read(fd, 4096)
            finally:
                os.close(fd)
        except ProcessLookupError:
            raise ProcessGone(self.pid) from None
        except FileNotFoundError:
            if name in ("stat", "statm"):  # every process has these
                raise ProcessGone(self.pid) from None
            raise

    def read_resident(self) -> tuple[int, int] | None:
        """Anonymous bytes and file + shared bytes in RAM; None where nothing has changed."""
        raw = self._read("statm")
        if raw == self._statm_raw:
            return None
        fields = raw.split(None, 3)
        resident, shared = int(fields[1]), int(fields[2])
        if resident == 0:  # a zombie: its memory is gone, and zeros would look like a collapse
            raise ProcessGone(self.pid)
        self._statm_raw = raw
        return max(resident - shared, 0) * PAGE_BYTES, shared * PAGE_BYTES

    def read_detail(self, previous: Detail, sources: Sequence[str] = SOURCES) -> Detail:
        """What `stat` has, and the sources that were asked for.

        What may not be read (another user's io) keeps its previous value.
        """
        stat = parse_stat(self._read("stat"))
        if not self._keeps_open:
            self._check_identity(stat)
        detail = dict(previous)
        _take("stat", stat, detail)
        for source in sources:
            try:
                found = self._count_fds() if source == "fd" else self._read(source)
            except PermissionError:
                continue
            except FileNotFoundError:
                if not os.path.isdir(self._folder):  # noqa: PTH112 (on the hot path)
                    raise ProcessGone(self.pid) from None
                continue  # this kernel was built without it
            _take(source, found, detail)
        return detail

    def _count_fds(self) -> int:
        """The folder's size tells since Linux 6.2, before that its entries are counted."""
        folder = self._folder + "fd"
        place: str | int = self._fds.get("fd", folder)
        try:
            if place is folder and self._keeps_open:
                place = self._fds["fd"] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            size = os.stat(place).st_size  # noqa: PTH116
            return size if size > 0 else len(os.listdir(folder))  # noqa: PTH208
        except ProcessLookupError:
            raise ProcessGone(self.pid) from None


def _take(source: str, found: Any, detail: Detail) -> None:
    for name, read in _READERS_OF[source]:
        value = read(found)
        if value is not None:
            detail[name] = value
