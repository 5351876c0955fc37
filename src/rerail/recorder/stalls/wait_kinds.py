"""What a thread waits for, as a person would say it: a lock, a queue, a pipe, a child, the disk.

In: a thread's stack, with what /proc says of it. Out: the kind and the words. Python's own frames
tell most: `queue.get` waits in a lock, but what it waits for is a queue. Where there are none the
native functions tell, and at last the system call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.platform.own_code import is_own
from rerail.platform.patterns import linear
from rerail.records import PythonFrame, ThreadStack
from rerail.wording import file_name

_COLLECTIVES = (
    r"all_?reduce\w*|all_?gather\w*|_all_?gather_base|broadcast\w*|barrier|monitored_barrier"
    r"|reduce_scatter\w*|all_to_all\w*|gather|scatter"
)
# File and function of a frame as `file:function`; the first row that fits any frame wins.
_BY_PYTHON = (
    (
        r"dataloader\.py:_get_data$|:(_try_get_data|_next_data)$",
        "loader",
        "its DataLoader workers",
    ),
    (rf"distributed/\S*\.py:({_COLLECTIVES})$", "collective", "the other ranks"),
    (r"multiprocessing/pool\.py:(get|wait|join|next)$", "child", "its pool of processes"),
    (r"(multiprocessing/process\.py:join|popen_\w+\.py:(wait|poll))$", "child", "a child process"),
    (
        r"subprocess\.py:(wait|_wait|_try_wait|communicate|_communicate)$",
        "child",
        "a child process",
    ),
    (
        r"multiprocessing/queues\.py:_finalize_join$",
        "queue",
        "somebody to empty its queue",
    ),
    (r"torch/\S*/api\.py:(join|wait|_poll|_invoke_run|_monitor_workers)$", "child", "its ranks"),
    (r"concurrent/futures/_base\.py:(result|wait|exception|as_completed)$", "future", "a future"),
    (r"multiprocessing/queues\.py:(get|put|join)$", "queue", "a queue between processes"),
    (r"(^|/)queues?\.py:(get|put|join)$", "queue", "a queue"),
    (
        r"multiprocessing/connection\.py:(recv|recv_bytes|_recv|poll|_poll|wait|send)",
        "pipe",
        "a pipe",
    ),
    (r"multiprocessing/synchronize\.py:", "lock", "a lock between processes"),
    (r"threading\.py:(join|_wait_for_tstate_lock)$", "thread", "a thread to end"),
    (r"threading\.py:(wait|wait_for|acquire)$", "event", "another thread's signal"),
    (r"(ssl|socket|http/client)\.py:", "network", "the network"),
    (r"asyncio/base_events\.py:_run_once$", "poll", "a task of its event loop (asyncio)"),
)
_BY_NATIVE = (
    (r"SimpleQueue_get|simplequeue_get", "queue", "a queue"),
    (r"^(time_sleep|pysleep|clock_nanosleep|nanosleep|usleep|sleep)$", "sleep", "a sleep to end"),
    (r"^(take_gil|PyEval_RestoreThread|PyGILState_Ensure)$", "gil", "the interpreter lock (GIL)"),
    (
        r"acquire_lock|lock_acquire|PyMutex|pthread_mutex_lock|lll_lock|rwlock_(wr|rd)lock"
        r"|std::mutex::lock|semlock_acquire|SemLock_acquire",
        "lock",
        "a lock",
    ),
    (r"cudaStreamSync|cudaDeviceSync|cudaEventSync|cuStreamSync|cuCtxSync", "gpu", "the GPU"),
)
_BY_CALL = (
    (r"^a lock or another thread", "lock", "a lock or another thread"),
    (r"^(?P<whom>process \d+) to end", "child", "child {whom}"),
    (r"^a child process to end", "child", "a child process"),
    (r"(data from|space in) a pipe", "pipe", "a pipe"),
    (r"the network: \S+ to (?P<whom>\S+)$", "network", "the network ({whom})"),
    (r"the network|a local socket", "network", "the network"),
    (r"^(?P<whom>/.{1,200}) to be opened$", "open", "{whom} to be opened"),
    (r"^a file to be opened$", "open", "a file to be opened"),
    (r"^the disk", "disk", "the disk or a network file system"),
    (r"^a sleep", "sleep", "a sleep to end"),
    (r"^activity on several", "poll", "activity on several descriptors"),
    (r"^a signal", "signal", "a signal"),
    (r"^(data from|space in) /", "file", "a file"),
)
_PYTHON = [(linear(pattern), kind, words) for pattern, kind, words in _BY_PYTHON]
_NATIVE = [(linear(pattern), kind, words) for pattern, kind, words in _BY_NATIVE]
_CALL = [(linear(pattern), kind, words) for pattern, kind, words in _BY_CALL]
_OPENMP_LIBRARY = linear(r"gomp|libomp|iomp5")
_FOR_A_PROCESS = frozenset(["loader", "collective", "child", "pipe"])
_NATIVE_FRAMES = 8


@dataclass(frozen=True)
class WaitsFor:
    kind: str  # lock, queue, pipe, child, loader, collective, openmp, disk, network, sleep, …
    words: str
    is_for_a_process: bool


def waits_for(
    thread: ThreadStack, frames: Sequence[PythonFrame], collective: str | None
) -> WaitsFor | None:
    """`frames` are the thread's Python frames without what it inherited; None: it runs."""
    found = _told(thread, frames, collective)
    if found is None:
        return None
    kind, words = found
    return WaitsFor(kind, words, kind in _FOR_A_PROCESS or words.endswith("between processes"))


def _told(
    thread: ThreadStack, frames: Sequence[PythonFrame], collective: str | None
) -> tuple[str, str] | None:
    if collective:
        return "collective", f"the other ranks in {collective}"
    if is_in_openmp(thread):
        return "openmp", "the threads of its OpenMP pool"
    library = [f"{f.file}:{bare_name(f.function)}".replace("\\", "/") for f in _above_own(frames)]
    for pattern, kind, words in _PYTHON:
        name = next((name for name in library if pattern.search(name)), None)
        if name is not None:
            words += f" in {name.rpartition(':')[2]}" if kind == "collective" else ""
            return kind, _more_precise(kind, words, thread)
    functions = [_shown(f.function) for f in thread.native[:_NATIVE_FRAMES] if f.function]
    for pattern, kind, words in _NATIVE:
        if any(pattern.search(name) for name in functions):
            return kind, words
    call = thread.waits_for or ""
    if not call or call.startswith("nothing"):
        return None
    return _by_call(call) or ("other", call)


def _by_call(call: str) -> tuple[str, str] | None:
    for pattern, kind, words in _CALL:
        if found := pattern.search(call):
            return kind, words.format(**found.groupdict())
    return None


def _more_precise(kind: str, words: str, thread: ThreadStack) -> str:
    """Which child, or who at the other end: the system call knows what the function does not."""
    if words not in ("a child process", "the network"):
        return words
    told = _by_call(thread.waits_for or "")
    return told[1] if told is not None and told[0] == kind else words


def _above_own(frames: Sequence[PythonFrame]) -> list[PythonFrame]:
    """The library's frames that the user's innermost line has called."""
    at = next((at for at, frame in enumerate(frames) if is_own(frame.file)), len(frames))
    # A stack that has no library's frames may be of files whose folder is unknown.
    return list(frames[:at]) or [f for f in frames[:4] if bare_name(f.function) in _TELLING]


_TELLING = {"_try_get_data", "_get_data", "_next_data"}


def is_in_openmp(thread: ThreadStack) -> bool:
    """Its innermost frames but those of the C library are of an OpenMP runtime."""
    libraries = [file_name(f.library) for f in thread.native if f.library]
    inner = [name for name in libraries if not name.startswith(("libc.", "libc-", "libpthread"))]
    return bool(inner) and _OPENMP_LIBRARY.search(inner[0]) is not None


def bare_name(function: str) -> str:
    """`Queue.get` is `get`: from 3.11 on, stacks name the class as well."""
    return function.rpartition(".")[2]


def _shown(function: str | None) -> str:
    return (function or "").split("(")[0]
