"""The folder that holds the runs.

In: a home folder, which need not exist yet. Out: new runs to write, old runs to read, a list.
Promises: `create_run` always gives a writer, if need be one that keeps the run elsewhere or nowhere
and says so; no live run is ever removed; the index is a cache, and a store without one works.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rerail
from rerail.errors import RerailError, StoreUnavailable, UnknownRun, UsageError
from rerail.privacy import secrets_of
from rerail.records import RunInfo
from rerail.store import agent_memory, layout, liveness, retention
from rerail.store.appending import FaultLog, describe
from rerail.store.codec import dumps
from rerail.store.home import NAME as STORE_NAME
from rerail.store.home import NO_FOLDER, fallback_home, is_ours
from rerail.store.index import Index
from rerail.store.names import find_run
from rerail.store.regular_files import demand_safe_folder
from rerail.store.sizes import folder_bytes, sizes_of
from rerail.store.summaries import RunSummary, from_row, read_summary, to_row
from rerail.store.writer import RunWriter, set_reserve_aside

if TYPE_CHECKING:
    from rerail.store.folder import RunFolder

CLEAN_SECONDS = 0.1  # what a new run spends on making room before its command starts
_LARGEST = 16  # runs whose size is measured again before one is removed
_READ_AT_LEAST = 256  # runs that are compared before one is removed, however short the time
LEFT_SECONDS = 24 * 3600.0  # how long boxes wait in memory for a disk that takes them
UNNAMED_SECONDS = 3600.0  # how long a folder may stand without its run.json


@dataclass(frozen=True)
class Listing:
    """What is on record: the runs, newest first, and what cannot be read, with the reason."""

    summaries: Sequence[RunSummary]
    unreadable: Sequence[tuple[str, str]] = ()
    index_problem: str | None = None


class Store:
    def __init__(self, home: Path | str) -> None:
        self.home = Path(home)
        self.runs = self.home / layout.RUNS

    def create_run(
        self,
        command: Sequence[str],
        cwd: str | os.PathLike[str],
        settings: dict[str, Any],
        has_terminal: bool,
    ) -> RunWriter:
        """A new run folder and what writes it; the run's clock starts here.

        Where the store cannot be written the run goes into a private temporary folder, and where
        that cannot either, nowhere: `RunWriter.missing` then says so, and nothing is raised.
        """
        unix, t0_ns = time.time(), time.monotonic_ns()
        faults = FaultLog()
        self._make_room()
        path = self.runs / layout.new_run_id(unix)
        for home in (self.home, fallback_home()):
            try:
                path = _make_run_folder(home, unix)
                break
            except OSError as error:
                faults.add(f"{NO_FOLDER}{home}", error)
        info = RunInfo(
            schema=layout.SCHEMA,
            id=path.name,
            command=list(command),
            cwd=os.fspath(cwd),
            started_unix=round(unix, 3),
            host=os.uname().nodename,
            rerail_version=rerail.__version__,
            recorder_pid=os.getpid(),
            root_pid=None,
            has_terminal=has_terminal,
            state="running",
            settings=settings,
            fingerprint=fingerprint(command, cwd),
            t0_ns=t0_ns,
            recorder_start_ticks=liveness.start_ticks(os.getpid()),
            recorder_scope=liveness.scope(),
        )
        writer = RunWriter(path, info, faults)
        writer.begin()
        writer.event(
            "run-started",
            t_seconds=0.0,
            schema=layout.SCHEMA,
            unix=unix,
            monotonic=t0_ns / 1e9,
            monotonic_ns=t0_ns,
        )
        layout.sync_folder(path)
        layout.sync_folder(path.parent)
        return writer

    def resolve(self, name: str) -> RunFolder:
        """The run that answers to an id, a unique prefix of one, a folder, `last`, or a label."""
        try:
            return _reader(find_run(self.home, name, self.ids()))
        except UnknownRun:
            for summary in self.summaries():  # newest first
                if name and summary.info.settings.get("label") == name:
                    return _reader(summary.path)
            raise

    def resolve_inside(self, name: str) -> RunFolder:
        """The same for a name that a program or a page gave: never a folder outside this store."""
        ids = self.own_ids()
        try:
            return _reader(find_run(self.home, name, ids, only_inside=True))
        except UnknownRun:
            for summary in self.summaries():
                is_named = name and summary.info.settings.get("label") == name
                if is_named and summary.path.name in ids:
                    return _reader(summary.path)
            raise

    def own_ids(self) -> Sequence[str]:
        """Ids of the runs whose folder is in this store: without links to folders elsewhere."""
        try:
            with os.scandir(self.runs) as found:
                names = {each.name for each in found if each.is_dir(follow_symlinks=False)}
        except OSError:
            return []
        return sorted(name for name in names if not name.startswith("."))

    def ids(self) -> list[str]:
        """Ids of all runs, oldest first."""
        try:
            names = os.listdir(self.runs)  # noqa: PTH208 - names only, a thousand at a time
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreUnavailable(
                f"cannot read {self.runs}: {describe(error)}",
                "Say which store to use with --home or RERAIL_HOME.",
            ) from None
        return sorted(name for name in names if not name.startswith("."))

    def list(self) -> list[RunInfo]:
        """Every run that can be read, newest first."""
        return [summary.info for summary in self.summaries()]

    def summaries(self) -> Sequence[RunSummary]:
        """Every run that can be read with its size and leading cause, newest first."""
        return self.listing().summaries

    def listing(self) -> Listing:
        """The same, and which folders could not be read: each costs its own row, not the list."""
        ids = self.ids()
        if not ids:
            return Listing([])
        with Index(self.home) as index:
            return self._listing(index, ids)

    def history(self, info: RunInfo, limit: int = 20) -> Sequence[RunFolder]:
        """Earlier runs of the same command in the same folder, newest first.

        Not trials that show something else than the command: see `_is_of_something_else`.
        """
        same = [
            _reader(summary.path)
            for summary in self.summaries()
            if summary.info.fingerprint == info.fingerprint
            and summary.info.id != info.id
            and summary.info.started_unix <= info.started_unix
            and not _is_of_something_else(summary.info)
        ]
        return same[:limit]

    def remove(self, name: str) -> int | None:
        """Remove one run for good; a run that is still being recorded is refused.

        The bytes that are free now; None if another process removed it first.
        """
        folder = self.resolve(name)
        if _is_in_use(folder):
            raise UsageError(
                f"run {folder.id} is still running: not removed",
                f"Look at it with `rerail show {folder.id}`; remove it when it has ended.",
            )
        size = folder_bytes(folder.path)
        try:
            retention.remove_folder(folder.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnavailable(f"cannot remove {folder.path}: {describe(error)}") from None
        return size

    def clean(self, limit_bytes: int, seconds: float | None = None) -> Sequence[str]:
        """Remove runs until the store fits; return their ids. See `retention.removal_order`.

        `runs` may be a link to anywhere, and users keep their own folders there too: only what has
        the name of a run is removed.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        retention.sweep_leftovers(self.runs)
        if seconds is None:
            bring_left_behind_home(self.home)
        ids = [name for name in self.ids() if layout.is_run_id(name)]
        sizes = sizes_of(self.home, ids, None if seconds is None else seconds / 2)
        total = sum(sizes.values())
        if total > limit_bytes:
            # No run goes because a damaged cache says that one is large.
            for name in sorted(sizes, key=lambda name: -sizes[name])[:_LARGEST]:
                sizes[name] = folder_bytes(self.runs / name)
            total = sum(sizes.values())
        removed: list[str] = []
        if total <= limit_bytes:
            return removed
        for name in self._removal_order(ids, deadline):
            if total <= limit_bytes:
                break
            try:
                retention.remove_folder(self.runs / name)
            except OSError:
                continue
            removed.append(name)
            total -= sizes.get(name, 0)
            if deadline is not None and time.monotonic() > deadline:
                break  # the next run goes on from here
        return removed

    def _removal_order(self, ids: Sequence[str], deadline: float | None) -> Sequence[str]:
        candidates = []
        for at, name in enumerate(ids):
            if at >= _READ_AT_LEAST and deadline is not None and time.monotonic() > deadline:
                break
            candidates.append(_candidate(_reader(self.runs / name)))
        try:
            last = find_run(self.home, "last", ids).name
        except RerailError:
            last = None
        return retention.removal_order(candidates, last, time.time())

    def rebuild_index(self) -> int:
        """Throw the index away and fill it from the folders; the number of runs in it."""
        with Index(self.home) as index:
            index.delete()
        return len(self.summaries())

    def _listing(self, index: Index, ids: Sequence[str]) -> Listing:
        known = index.rows()
        found, changed, unreadable = [], [], []
        for name in ids:
            folder = _reader(self.runs / name)
            stamp = _stamp(folder.path)
            row = known.get(name)
            summary = from_row(folder.path, row[1], row[2]) if row and row[0] == stamp else None
            if summary is None:
                try:
                    summary = read_summary(folder)
                except Exception as error:
                    # Whatever is wrong with one folder, the others are listed.
                    if _has_run_file(folder.path):
                        unreadable.append((name, _reason(error)))
                    continue
                if summary.info.state != "running":
                    changed.append((name, stamp, to_row(summary), summary.size_bytes))
            found.append(summary)
        index.update(changed, known.keys() - set(ids))
        found.sort(key=lambda summary: (summary.info.started_unix, summary.info.id), reverse=True)
        return Listing(found, unreadable, index.problem)

    def _make_room(self) -> None:
        try:
            limit = retention.limit_bytes()
            if limit > 0 and self.runs.is_dir():
                self.clean(limit, CLEAN_SECONDS)
        except (RerailError, OSError):
            pass  # no room is made; that is no reason not to run the command


def bring_left_behind_home(home: Path | None = None) -> None:
    """Copy what dead recorders left in memory into their run folders, and remove it there.

    Runs that are still written are left alone; `home`: only runs of this store, so that no other
    disk is asked. What cannot be brought home within a day is removed.
    """
    for memory, run in agent_memory.left_behind():
        is_here = run is not None and home is not None and run.is_relative_to(home.absolute())
        if home is not None and not is_here:
            continue
        is_home = False
        if run is not None and agent_memory.find(run) == memory:
            if _is_in_use(_reader(run)):
                continue
            is_home = agent_memory.copy_changed(memory, run) is None
        if is_home or _age_seconds(memory) > LEFT_SECONDS:
            agent_memory.remove(memory)


def fingerprint(command: Sequence[str], cwd: str | os.PathLike[str]) -> str:
    """Equal for two runs of the same command in the same folder."""
    import hashlib

    words = list(command)
    for at, secret in enumerate(secrets_of(command)):
        if secret is not None:  # a hash of a short password could be guessed back
            words[at] = words[at][: secret[0]]
    text = dumps([os.fspath(cwd), words])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _is_of_something_else(info: RunInfo) -> bool:
    """A trial that had something changed, or that was ended when it had told enough."""
    is_trial = _trial_key(info) is not None
    was_ended = info.outcome is not None and info.outcome.signal in ("SIGTERM", "SIGKILL")
    return bool(info.settings.get("changes")) or (is_trial and was_ended)


def _trial_key(info: RunInfo) -> str | None:
    """Return which investigation or verification this run was made for; None if for none."""
    found = (info.settings.get(name) for name in ("investigation", "verification", "reference"))
    return next((str(key) for key in found if key is not None), None)


def _reader(path: Path) -> RunFolder:
    # Here, not above: a new run needs no reader, and `rerail run` waits for every import.
    from rerail.store.folder import RunFolder

    return RunFolder(path)


def _make_run_folder(home: Path, unix: float) -> Path:
    layout.make_folder(home)
    _demand_names(home)
    if home == fallback_home() and not is_ours(home):
        raise PermissionError(1, "it belongs to somebody else")
    layout.make_folder(home / layout.RUNS)
    for folder in (home, home / layout.RUNS):
        demand_safe_folder(folder)
    if home.name == STORE_NAME and not home.is_symlink():  # what it leads to may be a repository
        layout.keep_out_of_git(home)
    while True:
        path = home / layout.RUNS / layout.new_run_id(unix)
        try:
            path.mkdir(mode=layout.FOLDER_MODE)
            break
        except FileExistsError:
            continue  # another run of this second drew the same four digits
    path.chmod(layout.FOLDER_MODE)
    (path / layout.AGENT).mkdir(mode=layout.FOLDER_MODE)
    (path / layout.MAPS).mkdir(mode=layout.FOLDER_MODE)
    set_reserve_aside(path)
    return path


def _demand_names(home: Path) -> None:
    """A disk with free blocks and no more inodes takes a few files of a run, and not its ending."""
    status = os.statvfs(home)
    if status.f_files and status.f_favail < layout.FILES_PER_RUN:
        raise OSError(errno.ENOSPC, "no more files fit on this disk: it has no inodes left")


def _is_in_use(folder: RunFolder) -> bool:
    """Whether somebody writes this run: its recorder, or its command after the recorder died."""
    try:
        info = folder.info()
    except RerailError:
        return liveness.is_held(folder.path) is True or _is_being_made(folder.path)
    if info.state == "ended":
        return False
    if info.state == "running":
        return True
    if info.root_pid is None or info.recorder_scope != liveness.scope():
        return False
    try:
        root = [process for process in folder.processes() if process.pid == info.root_pid]
    except RerailError:
        return False
    return any(liveness.has_process(process.pid, process.start_ticks) for process in root)


def _candidate(folder: RunFolder) -> retention.Candidate:
    """Return what decides about the removal of this run."""
    try:
        info = folder.info()
    except RerailError:  # nothing can be explained about a run that cannot be read
        return retention.Candidate(folder.id, 0.0, False, True, _is_in_use(folder))
    is_recorder_alive = info.recorder_scope == liveness.scope() and liveness.has_process(
        info.recorder_pid, info.recorder_start_ticks
    )
    has_diagnosis = (folder.path / layout.DIAGNOSIS).is_file()
    return retention.Candidate(
        id=folder.id,
        ended_unix=info.started_unix + (info.elapsed_seconds or 0.0),
        is_success=info.outcome is not None and info.outcome.kind == "ok",
        # `rerail run --quiet` keeps a diagnosis that nobody has seen.
        is_explained=not info.settings.get("is_quiet") and has_diagnosis,
        is_in_use=is_recorder_alive or _is_in_use(folder),
        trial_of=_trial_key(info),
    )


def _is_being_made(path: Path) -> bool:
    """A folder without run.json may be a run that is about to begin."""
    return _age_seconds(path) < UNNAMED_SECONDS and not _has_run_file(path)


def _age_seconds(folder: Path) -> float:
    """Return how long ago its names changed; of a folder that is gone, for ever."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return float("inf")


def _has_run_file(path: Path) -> bool:
    """A folder without one is a run about to begin, or something of the user's."""
    try:
        (path / layout.RUN).lstat()
        return True
    except OSError:
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, RerailError):
        return error.message
    return f"{type(error).__name__}: {error}"[:200]


def _stamp(path: Path) -> str:
    """Changes whenever what the index keeps of a run may have changed."""
    parts = []
    for name in (layout.RUN, layout.DIAGNOSIS):
        try:
            status = (path / name).lstat()
            parts.append(f"{status.st_mtime_ns}:{status.st_size}")
        except OSError:
            parts.append("-")
    return " ".join(parts)
