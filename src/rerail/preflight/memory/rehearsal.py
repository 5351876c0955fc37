"""A dry run: the command under the recorder for a few steps, then measured while it stands still.

In: a command, folder, variables, how many steps. Out: a `Rehearsal`. The program runs for real,
with the variables RERAIL_REHEARSAL and WANDB_MODE added and a folder of ours on PYTHONPATH; after
the last step (or before it would remove a file of the user's) it waits, loader workers fill their
queues, memory is read, and it is ended at once, without its signal handlers or atexit functions.
Promises: its record and scratch files are in a temporary folder, which is removed, and so are
files and folders that the program made anew, also when a signal ends it (`stop`). Where an overlay
is possible, nothing that the program writes reaches the user's folders at all.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rerail.errors import RerailError
from rerail.experiments import Asking, Shield
from rerail.platform.layers import written_at
from rerail.platform.own_folder import OwnFolder
from rerail.preflight.memory.proc_memory import (
    DataMapping,
    ProcessMemory,
    data_mappings,
    read_tree,
    tree_of,
    unmapped_shared_bytes,
)
from rerail.preflight.memory.stopping import Stop
from rerail.records import BlackBox, MappedLibrary, Outcome, ProcessRecord
from rerail.scheduling import LocalTask, Task, available_bytes
from rerail.store import RunFolder

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

STUB = Path(__file__).resolve().parent / "stub"
LEAST_STEPS = 3
MORE_STEPS, MORE_SECONDS = 12, 15.0  # most of what an allocator still grows by is seen then
_POLL_SECONDS = 0.02
_SETTLE_SECONDS = 4.0  # for loader queues to fill once nobody takes from them
_QUIET_SECONDS = 0.4
_OTHERS_SECONDS = 5.0  # for the other ranks to get to the same step
_BREATH = 1 << 20
_WORK_PREFIX = "rerail-check-"

Ending = Literal["steps", "write", "finished", "failed", "time"]


@dataclass(frozen=True)
class Report:
    """What one training process said of itself."""

    pid: int
    reason: str
    detail: str
    steps: int
    marks: list[dict[str, Any]]
    sizes: dict[str, int]
    moved: list[str]
    # What was theirs alone, when workers of the second epoch had taken their place.
    first_workers_bytes: int | None = None
    workers_begun_step: int = 0  # after how many steps the loader's workers were forked
    loop_comes_again: bool = True  # False: the loader is gone through once, there is no other epoch

    def peak(self) -> int:
        """The highest resident size at any time."""
        return max((int(mark.get("VmHWM", 0)) for mark in self.marks), default=0)


@dataclass(frozen=True)
class Still:
    """The process tree, measured while it stands still."""

    processes: list[ProcessMemory] = field(default_factory=list)
    mappings: dict[int, list[DataMapping]] = field(default_factory=dict)
    unmapped_bytes: int = 0  # in /dev/shm, waiting in loader queues


@dataclass(frozen=True)
class GpuUse:
    """What a GPU held at most while the dry run went on, all its users together."""

    index: int
    before_bytes: int
    peak_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Rehearsal:
    command: tuple[str, ...]
    ending: Ending
    seconds: float
    reports: list[Report] = field(default_factory=list)
    still: Still = field(default_factory=Still)
    records: list[ProcessRecord] = field(default_factory=list)
    boxes: list[BlackBox] = field(default_factory=list)
    libraries: dict[str, list[MappedLibrary]] = field(default_factory=dict)
    sampled_peak_bytes: int = 0  # of the tree, as it was recorded
    outcome: Outcome | None = None
    diagnosis: Diagnosis | None = None
    last_lines: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # what it had made anew
    gpus: list[GpuUse] = field(default_factory=list)
    t0_seconds: float = 0.0  # monotonic clock at the start of the run: records count from there

    @property
    def steps(self) -> int:
        return max((report.steps for report in self.reports), default=0)


def rehearse(
    command: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    steps: int | None = None,
    most_seconds: float = 120.0,
    stop: Stop | None = None,
) -> Rehearsal:
    """`steps` exactly; by default at least three, and more of them while they are quick."""
    stop = stop or Stop()
    with stop.held(), closing(_work_folder()) as own:
        work = own.path
        task = _task(command, cwd, environ, work, steps, most_seconds)
        # Where no overlay is possible, the stub in the process keeps its writes away.
        asking = Asking(lambda text: None, may_write=True)
        shield = Shield(command, str(cwd), None, asking, through=work)
        layers = shield.layers()
        task = replace(task, shielded=shield.folders, layers=layers, through=str(work))
        try:
            running = LocalTask(task)
        except BaseException:
            shield.close()
            raise
        begun = time.monotonic()
        try:
            reports, still = _watch(running, work, begun + most_seconds, stop, shield)
            is_over = running.is_over()
        finally:
            (work / "reports" / "end").touch()
            if stop.asked is None:
                _let_end(running)
            running.stop()
            removed = remove_new(work / "reports" / "created.log", task)
            shield.close()
        seconds = time.monotonic() - begun
        folder = running.folder()
        problem = running.problem()
        if folder is None or problem:
            words = problem or f"{command[0]} was started and left no record"
            raise RerailError(words, _how_to_start(command, words))
        return _read(
            command,
            RunFolder(folder),
            seconds,
            reports,
            still,
            is_over=is_over,
            removed=removed,
        )


def _how_to_start(command: Sequence[str], words: str) -> str:
    if "denied" in words and command[0].endswith(".py"):
        return f"With its interpreter: rerail check -- python {command[0]}"
    return "Give the command as your shell knows it: rerail check -- python train.py"


def _work_folder() -> OwnFolder:
    own = OwnFolder(_WORK_PREFIX)
    for name in ("reports", "scratch", "home"):
        (own.path / name).mkdir()
    return own


def _task(
    command: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    work: Path,
    steps: int | None,
    most_seconds: float,
) -> Task:
    path = environ.get("PYTHONPATH")
    settings = {
        "folder": str(work / "reports"),
        "scratch": str(work / "scratch"),
        "steps": LEAST_STEPS if steps is None else steps,
        "more_steps": MORE_STEPS if steps is None else 0,
        "more_seconds": MORE_SECONDS,
        "started_unix": time.time(),
        "room": available_bytes() or 0,
        "free": [str(work), "/dev/", "/proc/", "/sys/"],
    }
    added = {
        "RERAIL_REHEARSAL": json.dumps(settings),
        "PYTHONPATH": f"{STUB}:{path}" if path else str(STUB),
        "WANDB_MODE": "disabled",  # a dry run is nobody's experiment
    }
    return Task(
        command=tuple(command),
        cwd=str(cwd),
        home=str(work / "home"),
        environ={**environ, **added},
        label=work.name,
        stall_seconds=max(20.0, most_seconds / 2),
        settings={"purpose": "check"},
    )


def _watch(
    running: LocalTask, work: Path, deadline: float, stop: Stop, shield: Shield
) -> tuple[list[Report], Still]:
    """Until somebody reports, the command ends, or time is up; then measure."""
    folder = work / "reports"
    while not running.is_over() and time.monotonic() < deadline and stop.asked is None:
        if any(report.reason != "finished" for report in _reports(folder)):
            _wait_for_others(running, folder)
            still = _when_settled(running)
            return _reports(folder), still
        if why := shield.overfull(running.task.layers):
            raise RerailError(f"the dry run is ended: {why}")
        time.sleep(_POLL_SECONDS)
    still = Still() if running.is_over() else _look(running)
    return _reports(folder), still


def _wait_for_others(running: LocalTask, folder: Path) -> None:
    """Ranks reach the last step one after the other."""
    until = time.monotonic() + _OTHERS_SECONDS
    while time.monotonic() < until and not running.is_over():
        path = running.folder()
        training = 0
        if path is not None:
            training = sum(box.optimizer_steps > 0 for box in RunFolder(path).boxes())
        if len(list(folder.glob("*.json"))) >= training:
            return
        time.sleep(0.1)


def _when_settled(running: LocalTask) -> Still:
    """Loader workers go on until their queues are full: the most that they will ever hold."""
    still = _look(running)
    last, quiet_since = _total(still), time.monotonic()
    until = quiet_since + _SETTLE_SECONDS
    while len(still.processes) > 1 and time.monotonic() < until:
        time.sleep(0.1)
        still = _look(running)
        total = _total(still)
        if abs(total - last) > _BREATH:
            last, quiet_since = total, time.monotonic()
        elif time.monotonic() - quiet_since >= _QUIET_SECONDS:
            break
    return still


def _look(running: LocalTask) -> Still:
    pids = _pids(running)
    mappings = {pid: data_mappings(pid) for pid in pids}
    return Still(read_tree(pids), mappings, unmapped_shared_bytes(pids))


def _total(still: Still) -> int:
    private = sum(process.anon_bytes + process.shared_bytes for process in still.processes)
    return private + still.unmapped_bytes


def _pids(running: LocalTask) -> list[int]:
    folder = running.folder()
    if folder is None:
        return []
    try:
        root = RunFolder(folder).info().root_pid
    except RerailError:
        return []
    return tree_of(root) if root else []


def _let_end(running: LocalTask) -> None:
    """Give the recorder a moment to write the ending of a command that has just left."""
    until = time.monotonic() + 2.0
    while not running.is_over() and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def remove_new(log: Path, task: Task | None = None) -> list[str]:
    """Take away what the dry run made: files and folders that were not there before it."""
    removed = []
    for path in _created(log):
        try:
            # In a covered folder it is in the layer; one of that name outside is the user's.
            layer = written_at(path, Path(task.layers)) if task and task.layers else None
            made = layer or path
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made)
            else:
                made.unlink()
            removed.append(str(path))
        except OSError:
            continue  # the program has removed it itself
    return removed


def _created(log: Path) -> list[Path]:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(Path(json.loads(line)))
        except ValueError:
            continue
    return found


def _reports(folder: Path) -> list[Report]:
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Report(**json.loads(path.read_text())))
        except (OSError, ValueError, TypeError):
            continue
    return found


def _read(
    command: Sequence[str],
    folder: RunFolder,
    seconds: float,
    reports: list[Report],
    still: Still,
    *,
    is_over: bool,
    removed: list[str],
) -> Rehearsal:
    outcome = folder.info().outcome
    ending: Ending = "time"
    stopped = [report.reason for report in reports if report.reason != "finished"]
    if stopped:
        ending = "write" if set(stopped) == {"write"} else "steps"
    elif is_over:
        is_well = outcome is not None and outcome.kind == "ok"
        ending = "finished" if is_well else "failed"
    rows = folder.recent_vitals()
    return Rehearsal(
        tuple(command),
        ending,
        seconds,
        reports,
        still,
        folder.processes(),
        folder.boxes(),
        folder.libraries(),
        max((row.tree.rss_bytes for row in rows), default=0),
        outcome,
        _diagnosis(folder) if ending == "failed" else None,
        _last_lines(folder),
        removed,
        gpu_use([row.machine for row in rows]),
        folder.t0_ns / 1e9,
    )


def gpu_use(machine: Sequence[Mapping[str, float]]) -> list[GpuUse]:
    found = []
    totals = {k: v for values in machine for k, v in values.items() if k.endswith("_total_bytes")}
    for index in range(sum(name.startswith("gpu") for name in totals)):
        used = [int(v[f"gpu{index}_used_bytes"]) for v in machine if f"gpu{index}_used_bytes" in v]
        total = int(totals.get(f"gpu{index}_total_bytes", 0))
        if used and total:
            found.append(GpuUse(index, used[0], max(used), total))
    return found


def _diagnosis(folder: RunFolder) -> Diagnosis:
    from rerail.diagnosis import explain_run

    return explain_run(folder)


def _last_lines(folder: RunFolder, count: int = 5) -> list[str]:
    try:
        return [line.text.decode(errors="replace") for line in folder.output().tail(count)]
    except (RerailError, OSError):
        return []
