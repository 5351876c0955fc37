"""Runs tasks on this machine, one after another or several at once.

Several at once get disjoint sets of processors, so that one run does not slow another down more
than it would be slowed by a smaller machine; and memory is asked for before, not found missing
afterwards.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from rerail.errors import RerailError, UsageError
from rerail.platform.own_process import own_process
from rerail.platform.proc_files import others_in_session, read_stat
from rerail.scheduling.task import NotEnoughMemory, Task
from rerail.store import RunFolder, Store, liveness
from rerail.wording import bytes_in_words

PATIENCE_SECONDS = 5.0  # for a command to end after SIGTERM, before SIGKILL
_POLL_SECONDS = 0.02
# What must stay free beside the runs: the machine's own needs, and what a guess is off by.
_SPARE_SHARE = 0.1


class _WaitingRecorder:
    """A recording process that has not been told yet what to record."""

    def __init__(self) -> None:
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            own_process("rerail.scheduling.recording_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.words,
            start_new_session=True,  # Ctrl-C is for the one who asked, not for the trials
        )

    def is_there(self) -> bool:
        return self.process.poll() is None

    def dismiss(self) -> None:
        self.tell("")
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tell(self, task: str) -> None:
        """What to record; of nothing, it ends."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(task.encode())
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it says why on its standard error


class LocalTask:
    """One recording process and the tree below it."""

    def __init__(self, task: Task, recorder: _WaitingRecorder | None = None) -> None:
        self.task = task
        self._folder: Path | None = None
        recorder = recorder or _WaitingRecorder()
        self._process, self._words = recorder.process, recorder.words
        recorder.tell(task.to_text())

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_over(self) -> bool:
        return self._process.poll() is not None

    def folder(self) -> Path | None:
        if self._folder is None:
            self._folder = find_labelled(Path(self.task.home), self.task.label)
        return self._folder

    def stop(self) -> None:
        if not self.is_over():
            self._send_when_ready(signal.SIGTERM)
            self._wait(PATIENCE_SECONDS)
        # A shell that was told to end leaves what it had started behind.
        self._kill_leftovers()
        if not self.is_over():
            self._wait(PATIENCE_SECONDS)
        if not self.is_over():
            self._process.kill()
            self._process.wait()

    def problem(self) -> str | None:
        if not self.is_over() or self._process.returncode == 0:
            return None
        self._words.seek(0)
        words = self._words.read().decode("utf-8", "replace").strip()
        return words.splitlines()[-1] if words else f"its recorder ended: {self._process.args!r}"

    def _send_when_ready(self, number: int) -> None:
        """To the recorder once it has a command to pass it on to: before, it would die of it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and not self.is_over():
            folder = self.folder()
            if folder is not None and _has_root(folder):
                break
            time.sleep(_POLL_SECONDS)
        try:
            self._process.send_signal(number)
        except ProcessLookupError:
            pass

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def _kill_leftovers(self) -> None:
        """Kill what the record names, and what was started too late to be in it.

        The recorder leads a session of its own, so all that is in it belongs to this task.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while living := {*self._recorded_and_alive(), *self._in_its_session()}:
            for pid in living:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)

    def _recorded_and_alive(self) -> list[int]:
        folder = self.folder()
        try:
            processes = RunFolder(folder).processes() if folder is not None else []
        except RerailError:
            return []
        return [p.pid for p in processes if liveness.has_process(p.pid, p.start_ticks)]

    def _in_its_session(self) -> list[int]:
        if not self.is_over():
            return []  # the recorder and its helpers still write the record
        living = others_in_session(self.pid)
        return [pid for pid in living if (stat := read_stat(pid)) is not None and not stat.is_over]


class LocalScheduler:
    def __init__(self, jobs: int = 1) -> None:
        cores = own_cores()
        if jobs > len(cores):
            raise UsageError(
                f"--jobs {jobs} is more than the {len(cores)} processors that there are here",
                f"Runs that share a processor are not comparable. At most: --jobs {len(cores)}",
            )
        self.jobs = jobs
        share = len(cores) // jobs
        self._shares = [tuple(cores[i * share : (i + 1) * share]) for i in range(jobs)]
        self._running: dict[int, LocalTask] = {}  # by share of the processors
        self._spare: _WaitingRecorder | None = None

    def start(self, task: Task) -> LocalTask:
        self._running = {i: t for i, t in self._running.items() if not t.is_over()}
        free = next((i for i in range(self.jobs) if i not in self._running), None)
        if free is None:
            raise UsageError(f"{self.jobs} runs are under way already")
        if self.jobs > 1:
            task = Task(**{**vars(task), "cores": self._shares[free]})
        spare, self._spare = self._spare, None
        running = LocalTask(task, spare if spare is not None and spare.is_there() else None)
        self._running[free] = running
        # An interpreter takes a tenth of a second to be ready: the next one gets so while this
        # task runs, and not between two of them.
        self._spare = _WaitingRecorder()
        return running

    def admit(self, peak_bytes: int) -> None:
        available = available_bytes()
        if self.jobs == 1 or available is None:
            return
        # What runs already has taken its part of what was available; the recorder's own processes,
        # which are in its tree too, have no part in that.
        under_way = [each for each in self._running.values() if not each.is_over()]
        taken = sum(min(peak_bytes, _tree_bytes(each.pid)) for each in under_way)
        usable = int((1.0 - _SPARE_SHARE) * (available + taken))
        if self.jobs * peak_bytes > usable:
            raise NotEnoughMemory(
                f"{self.jobs} runs at once need {bytes_in_words(self.jobs * peak_bytes)} of memory;"
                f" {bytes_in_words(usable)} are free",
                max(1, usable // max(1, peak_bytes)),
            )

    def close(self) -> None:
        for running in self._running.values():
            running.stop()
        self._running.clear()
        if self._spare is not None:
            self._spare.dismiss()
            self._spare = None


def find_labelled(home: Path, label: str) -> Path | None:
    """The run with this label, looked for among the newest."""
    for name in reversed(Store(home).ids()[-50:]):
        folder = RunFolder(home / "runs" / name)
        try:
            if folder.info().settings.get("label") == label:
                return folder.path
        except RerailError:
            continue
    return None


def available_bytes() -> int | None:
    """What runs can still take, by the machine and by the cgroup that we are in."""
    import psutil

    available = int(psutil.virtual_memory().available)
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            left = int(Path(limit).read_text()) - int(Path(usage).read_text())
        except (OSError, ValueError):
            continue
        available = min(available, max(0, left))
    return available


def _tree_bytes(pid: int) -> int:
    import psutil

    total = 0
    try:
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += int(process.memory_info().rss)
    except psutil.Error:
        return 0
    return total


def own_cores() -> list[int]:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _has_root(folder: Path) -> bool:
    try:
        return RunFolder(folder).info().root_pid is not None
    except RerailError:
        return False
