"""Who is stuck, in which line of the user's own code, and what does it wait for? Pure logic.

In: everybody's stacks, and who the processes are. Out: one `Place` per process, the one that the
others wait for first. The recorder says it at once on the terminal, the evidence later in the
answer: both from here.

A main process that waits for its loader's queue is not stuck: its worker is. So a process that
waits for another one comes after those that do not, and a worker that waits for work comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rerail.platform.own_code import is_own
from rerail.platform.patterns import linear
from rerail.recorder.stalls.wait_kinds import WaitsFor, bare_name, waits_for
from rerail.records import BlackBox, ProcessRecord, PythonFrame, ThreadStack
from rerail.store import with_boxes
from rerail.wording import thread_in_words

MOST_OWN_FRAMES = 3
_IDLE_THREADS = linear(
    r"(?i)^(QueueFeederThread|ThreadPoolExecutor|tqdm|pt_autograd|asyncio|pt_|IOThread)"
)
_OF_THE_PROGRAM = linear(r"^(?:python|pypy|pt_main)[\w.]*$")
_FIRST_OF_A_CHILD = linear(r"multiprocessing/(process|spawn|forkserver|popen_fork)\.py$")
_BESIDE_THE_RUN = ("shell", "launcher", "helper", "daemon")
_CHILDREN_FOR_WORK = ("loader-worker", "multiprocessing")


@dataclass(frozen=True)
class Who:
    """What is known of a process beside its stack."""

    role: str = "child"
    rank: int | None = None
    collective: str | None = None
    was_forked_beside_threads: bool = False
    worker: int | None = None  # its number, where its agent told it


@dataclass(frozen=True)
class Place:
    key: str  # ProcessRecord.key
    who: Who
    process: str  # as a sentence has it: main process, rank 1, worker 2 (pid 4711)
    thread: ThreadStack
    own: list[PythonFrame] = field(default_factory=list)  # innermost first, a few
    waits: WaitsFor | None = None

    @property
    def pid(self) -> int:
        return int(self.key.partition("-")[0])

    @property
    def waits_on_process(self) -> bool:
        return self.waits is not None and self.waits.is_for_a_process

    @property
    def waits_for_work(self) -> bool:
        """A worker outside of the user's code, with nothing to do."""
        return (
            self.who.role in _CHILDREN_FOR_WORK
            and not self.own
            and self.waits is not None
            and self.waits.kind in ("queue", "pipe", "lock")
            and any(bare_name(f.function) in ("get", "recv", "poll") for f in self.thread.python)
        )


def find_places(
    stacks: Mapping[str, Sequence[ThreadStack]], who: Mapping[str, Who], workers: int | None = None
) -> list[Place]:
    """The most telling place first; `workers`: of the run's largest DataLoader, where known."""
    numbers = _worker_numbers(stacks, who, workers)
    found = []
    for key, threads in stacks.items():
        if threads:
            pid = int(key.partition("-")[0])
            one = who.get(key, Who())
            thread = telling_thread(pid, threads)
            frames = own_part(thread.python)
            own = [frame for frame in frames if is_own(frame.file)]
            found.append(
                Place(
                    key,
                    one,
                    _called(one, pid, numbers.get(key)),
                    thread,
                    own[:MOST_OWN_FRAMES],
                    waits_for(thread, frames, one.collective),
                )
            )
    return sorted(found, key=_suspicion, reverse=True)


def who_is_who(records: Sequence[ProcessRecord], boxes: Mapping[str, BlackBox]) -> dict[str, Who]:
    found = {}
    for record in with_boxes(records, boxes.values()):
        box = boxes.get(record.key)
        found[record.key] = Who(
            record.role,
            record.rank,
            box.collective if box else None,
            bool(box and box.fork_parent_had_threads),
            record.worker,
        )
    return found


def most_workers(boxes: Iterable[BlackBox]) -> int | None:
    """Of the largest DataLoader; None where no process has said that it has one."""
    counts = [loader.workers for box in boxes for loader in box.loaders]
    return max(counts, default=None)


def _suspicion(place: Place) -> tuple[bool, ...]:
    return (
        place.who.role not in _BESIDE_THE_RUN,
        not place.waits_for_work,
        bool(place.own) or place.who.was_forked_beside_threads,
        place.waits is None or place.waits.kind not in ("loader", "collective", "child"),
        not place.waits_on_process,
        place.who.was_forked_beside_threads,
        place.who.role in _CHILDREN_FOR_WORK,
    )


def telling_thread(pid: int, threads: Sequence[ThreadStack]) -> ThreadStack:
    """The main thread, unless another one holds Python frames that are not of an idle pool."""
    main = next((t for t in threads if t.thread_id == pid), None)
    if main is not None and (main.python or main.native):
        return main
    busy = [t for t in threads if t.python and not _IDLE_THREADS.match(t.name or "")]
    return busy[0] if busy else main or threads[0]


def own_part(frames: Sequence[PythonFrame]) -> list[PythonFrame]:
    """Without what a forked child has inherited: its stack goes on with that of its parent."""
    for at, frame in enumerate(frames):
        if bare_name(frame.function) in ("_bootstrap", "_main", "_launch") and (
            _FIRST_OF_A_CHILD.search(frame.file.replace("\\", "/"))
        ):
            return list(frames[:at])
    return list(frames)


def thread_called(thread: ThreadStack, pid: int) -> str:
    """ "thread 1 (flush)" for Python's own `Thread-1 (flush)`."""
    if thread.thread_id == pid or thread.name == "MainThread":
        return "the main thread"
    name = thread.name or str(thread.thread_id)
    if _OF_THE_PROGRAM.match(name):  # the kernel's name, which it has from the program
        name = what_it_runs(thread.python) or name
    return thread_in_words(name.removeprefix("Thread-"))


def what_it_runs(frames: Sequence[PythonFrame]) -> str | None:
    """ "flush()": the function that a thread of Python's was started with."""
    for at, frame in enumerate(frames[1:], 1):
        if bare_name(frame.function) == "run" and frame.file.endswith("threading.py"):
            return f"{frames[at - 1].function.replace('<locals>.', '')}()"
    return None


def _called(who: Who, pid: int, number: int | None) -> str:
    if who.rank is not None and who.role in ("main", "rank", "child"):
        return f"rank {who.rank}"
    if who.role == "loader-worker":
        number = number if who.worker is None else who.worker
        return f"worker {number} (pid {pid})" if number is not None else f"worker (pid {pid})"
    if who.role in ("main", "launcher"):
        return "main process" if who.role == "main" else "launcher"
    return f"child process (pid {pid})"


def _worker_numbers(
    stacks: Mapping[str, object], who: Mapping[str, Who], workers: int | None
) -> dict[str, int]:
    """torch's own numbers, from 0 in order of their start; none where two loaders have workers."""
    keys = [key for key in stacks if key in who and who[key].role == "loader-worker"]
    if workers is None or len(keys) != workers:
        return {}
    in_order = sorted(keys, key=lambda key: tuple(int(n) for n in reversed(key.split("-"))))
    return {key: number for number, key in enumerate(in_order)}
