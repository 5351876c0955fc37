"""Runs tasks on a Ray cluster: an existing one (RAY_ADDRESS), or one on this machine.

Each task is an actor with its share of the processors and, once the memory of a run is known, that
memory too: Ray places it where both are free. Runs come back into the task's own store, written
there directly where the node sees it, and copied there while they run where it does not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerail.errors import RerailError, UsageError
from rerail.scheduling.local import PATIENCE_SECONDS, find_labelled
from rerail.scheduling.ray_recording import Known, Recording, node_cores
from rerail.scheduling.task import NotEnoughMemory, Task
from rerail.store import add_event, layout
from rerail.wording import bytes_in_words

INSTALL = "pip install 'rerail[ray]'"
_MEMORY_MARGIN = 1.1  # what the next run may take beyond the first
_ASK_SECONDS = 30.0
_LOST_SECONDS = 60.0  # an actor that cannot be reached for so long is taken for lost


class RayUnavailable(RerailError):
    """Ray is not installed, or its cluster does not answer."""


class RayTask:
    """One actor and what it has sent home so far."""

    def __init__(self, ray: Any, task: Task, cpus: int, memory: int, is_shared: bool) -> None:
        self.task = task
        self._ray = ray
        self._token = _leave_token(Path(task.home)) if is_shared else None
        kind = ray.remote(Recording).options(
            num_cpus=cpus, max_restarts=0, **({"memory": memory} if memory else {})
        )
        self._actor = kind.remote(task.to_text(), str(self._token) if self._token else None)
        self._asked: Any = None
        self._is_over = False
        self._remote: str | None = None
        self._is_here = False
        self._folder: Path | None = None
        self._known: Known = {}
        self._problem: str | None = None
        self._is_lost = False
        self._silent_since: float | None = None

    def is_over(self) -> bool:
        if not self._is_over:
            self._ask()
        return self._is_over

    def folder(self) -> Path | None:
        if not self._is_over:
            self._ask()
            self._collect(whole=False)
        return self._folder

    def stop(self) -> None:
        if self._is_over:
            return
        try:
            ready, _ = self._ray.wait([self._actor.state.remote()], timeout=PATIENCE_SECONDS)
            if ready:
                self._ray.get(self._actor.stop.remote(), timeout=6 * PATIENCE_SECONDS)
                self._note(self._ray.get(self._actor.state.remote(), timeout=_ASK_SECONDS))
        except Exception as error:
            self._problem = _sentence(error)
        if not self._is_over:
            self._end()

    def problem(self) -> str | None:
        return self._problem if self.is_over() else None

    def _ask(self) -> None:
        """Without waiting: an actor that has no place yet answers once it has one."""
        try:
            if self._asked is None:
                self._asked = self._actor.state.remote()
            ready, _ = self._ray.wait([self._asked], timeout=0)
            if ready:
                answer, self._asked = self._ray.get(self._asked), None
                self._silent_since = None
                self._note(answer)
        except Exception as error:
            self._asked = None
            if not self._may_come_back(error):
                self._lose(f"its node was lost: {_sentence(error)}")

    def _note(self, answer: tuple[bool, str | None, bool]) -> None:
        is_over, self._remote, self._is_here = answer
        if self._is_here and self._remote:
            self._folder = Path(self._remote)
        if is_over:
            self._collect(whole=True)
            self._problem = self._ray.get(self._actor.problem.remote(), timeout=_ASK_SECONDS)
            self._ray.get(self._actor.clear.remote(), timeout=_ASK_SECONDS)
            self._end()

    def _collect(self, whole: bool) -> None:
        if self._is_here or self._remote is None:
            return
        folder = Path(self.task.home) / layout.RUNS / Path(self._remote).name
        asked = self._actor.changed.remote(self._known, whole)
        for name, (stamp, data) in self._ray.get(asked, timeout=_ASK_SECONDS).items():
            path = folder / name
            layout.make_folder(path.parent)
            layout.replace_file(path, data)
            self._known[name] = stamp
        self._folder = folder if folder.is_dir() else None

    def _may_come_back(self, error: Exception) -> bool:
        """Ray says so of an actor that it cannot reach, before it knows that the node is dead."""
        if type(error).__name__ != "ActorUnavailableError":
            return False
        self._silent_since = self._silent_since or time.monotonic()
        return time.monotonic() - self._silent_since < _LOST_SECONDS

    def _lose(self, why: str) -> None:
        """What the record shows is the node's end and not the command's: it is nobody's answer.

        The record stays in the store and says so; whoever asked has the task run once more.
        """
        found = self._folder or find_labelled(Path(self.task.home), self.task.label)
        if found is not None:
            add_event(found, "note", {"text": f"{why}; it is run again elsewhere"})
        self._problem = why
        self._is_lost = True
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._folder = self._folder or find_labelled(Path(self.task.home), self.task.label)
        if self._is_lost:
            self._folder = None
        if self._token is not None:
            self._token.unlink(missing_ok=True)
        self._ray.kill(self._actor)


class RayScheduler:
    def __init__(self, jobs: int = 1, *, is_shared: bool = True) -> None:
        """`is_shared` is False to have runs copied back even where the store could be seen."""
        self.jobs = jobs
        self._ray = _import_ray()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            _connect(self._ray)
        self._is_shared = is_shared
        self._memory = 0
        self._running: list[RayTask] = []
        total = int(self._ray.cluster_resources().get("CPU", 0))
        if jobs > total:
            self.close()
            raise UsageError(
                f"--jobs {jobs} is more than the {total} processors of the Ray cluster",
                f"Runs that share a processor are not comparable. At most: --jobs {total}",
            )
        largest = max(int(node["Resources"].get("CPU", 0)) for node in self._nodes())
        self._cpus = max(1, min(total // jobs, largest))

    def start(self, task: Task) -> RayTask:
        self._running = [each for each in self._running if not each.is_over()]
        if len(self._running) >= self.jobs:
            raise UsageError(f"{self.jobs} runs are under way already")
        running = RayTask(self._ray, task, self._cpus, self._memory, self._is_shared)
        self._running.append(running)
        return running

    def admit(self, peak_bytes: int) -> None:
        needed = int(_MEMORY_MARGIN * peak_bytes)
        by_node = [int(node["Resources"].get("memory", 0)) for node in self._nodes()]
        places = sum(memory // max(1, needed) for memory in by_node)
        if places < self.jobs:
            raise NotEnoughMemory(
                f"{self.jobs} runs at once need {bytes_in_words(self.jobs * needed)} of memory;"
                f" the Ray cluster has {bytes_in_words(sum(by_node))}",
                max(1, places),
            )
        self._memory = needed

    def close(self) -> None:
        for running in self._running:
            running.stop()
        self._running.clear()
        if self._is_ours:
            self._ray.shutdown()

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    try:
        import ray
    except ImportError:
        raise RayUnavailable("--scheduler ray needs Ray, which is not installed", INSTALL) from None
    return ray


def _connect(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS")
    settings: dict[str, Any] = {"configure_logging": False, "log_to_driver": False}
    if address:
        settings["address"] = address
    else:
        settings |= {"address": "local", "num_cpus": node_cores(), "include_dashboard": False}
    try:
        try:
            _initialise(ray, settings)
        except Exception:
            if address:
                raise
            # Ray gives a cluster of its own half a minute to start, which is little on a machine
            # that is busy; the second time its files are in memory.
            ray.shutdown()
            _initialise(ray, settings)
    except Exception as error:
        where = f"the Ray cluster at {address}" if address else "a Ray cluster on this machine"
        raise RayUnavailable(
            f"{where} does not answer: {_sentence(error)}",
            "Check RAY_ADDRESS (`ray status`), or leave --scheduler ray away.",
        ) from None


def _initialise(ray: Any, settings: dict[str, Any]) -> None:
    with _signals_kept():
        ray.init(**settings)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray puts a handler of its own on SIGTERM, which ours is for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave_token(home: Path) -> Path:
    layout.make_folder(home)
    token = home / f".seen-{os.urandom(8).hex()}"
    token.touch(mode=0o600)
    return token


def _sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
