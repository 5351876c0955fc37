"""Who is stuck, where, and what does it wait for?

In: the stalls of a run with everybody's stacks, and the black boxes. Out: one `stall` observation
per process that was looked at, the one that the others wait for first.

A main process that waits for its loader's queue is not stuck: its worker is. So a process whose
stack says that it waits for another one comes after those whose stack does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rerail.evidence.run.crashes import is_bystander_library
from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import BlackBox, NativeFrame, Observation, ProcessRecord, Stall, ThreadStack
from rerail.wording import file_name, role_in_words, seconds_in_words, sentence

MOST_PROCESSES = 12
_MOST_FUNCTIONS = 8
# Python functions that wait for another process of the same job.
_WAITS_FOR_PROCESS = linear(
    r"^(_try_get_data|_get_data|_next_data|_poll|poll|wait|waitpid|join|communicate|_wait|recv|get"
    r"|recv_bytes|_recv|_recv_bytes|_invoke_run|_monitor_workers|popen_wait|barrier|all_reduce|wait_for_all)$"
)
_LOADER_FUNCTIONS = {"_try_get_data", "_get_data", "_next_data"}
_COLLECTIVE = linear(
    r"all_reduce|all_gather|broadcast|barrier|reduce_scatter|all_to_all|nccl|gloo", re.I
)
_OPENMP_LIBRARY = linear(r"gomp|libomp|iomp5")
_IDLE_THREADS = linear(r"^(QueueFeederThread|ThreadPoolExecutor|tqdm|pt_autograd|asyncio)", re.I)


def read_stalls(run: RecordedRun) -> list[Observation]:
    if not run.stalls:
        return []
    stall = run.stalls[-1]  # the last one is the one that it did not come out of
    found = []
    for key, threads in stall.stacks.items():
        process = run.by_key.get(key)
        if threads:
            found.append(_stuck(run, stall, key, process, threads))
    if not found:
        return [_without_stacks(run, stall)]
    found.sort(key=_suspicion, reverse=True)
    return found[:MOST_PROCESSES]


def _suspicion(observation: Observation) -> tuple[bool, bool, bool]:
    data = observation.data
    worth_naming = data["role"] not in ("shell", "launcher", "helper", "daemon")
    return worth_naming, not data["waits_on_process"], bool(data["forked_after_threads"])


def _stuck(
    run: RecordedRun,
    stall: Stall,
    key: str,
    process: ProcessRecord | None,
    threads: Sequence[ThreadStack],
) -> Observation:
    pid = int(key.partition("-")[0])
    thread = _telling_thread(pid, threads)
    functions = _functions(thread)
    libraries = _libraries(thread)
    box = run.box_of(process) if process else None
    role = process.role if process else "child"
    forked = bool(box and box.fork_parent_had_threads)
    waits_for = _waits_for(thread, functions, libraries, box)
    waits_on_process = _waits_on_process(thread, box)
    text = _sentence(stall, pid, role, functions, libraries, waits_for, forked)
    return Observation(
        "stall",
        text,
        f"stack:{pid}:{thread.thread_id}",
        {
            "pid": pid,
            "role": role,
            "rank": run.rank_of(process) if process else None,
            "silent_seconds": stall.silent_seconds,
            "functions": functions,
            "libraries": libraries,
            "waits_for": waits_for,
            "waits_on_process": waits_on_process,
            "forked_after_threads": forked,
            "collective": box.collective if box else None,
            "in_openmp": any(_OPENMP_LIBRARY.search(name) for name in libraries[:2]),
            "t_seconds": stall.t_seconds,
        },
    )


def _telling_thread(pid: int, threads: Sequence[ThreadStack]) -> ThreadStack:
    """The main thread, unless another one holds Python frames that are not of an idle pool."""
    main = next((t for t in threads if t.thread_id == pid), None)
    if main is not None and (main.python or main.native):
        return main
    busy = [t for t in threads if t.python and not _IDLE_THREADS.match(t.name or "")]
    return busy[0] if busy else main or threads[0]


def _functions(thread: ThreadStack) -> list[str]:
    native = [_shown(f) for f in thread.native[:3] if f.function]
    python = [f.function.replace("<locals>.", "") for f in thread.python[:_MOST_FUNCTIONS]]
    return list(dict.fromkeys([*native, *python]))


def _shown(frame: NativeFrame) -> str:
    return (frame.function or "").split("(")[0]


def _libraries(thread: ThreadStack) -> list[str]:
    """Innermost first, each once, without the C library and the loader."""
    names = [file_name(f.library) for f in thread.native if f.library]
    files = [file_name(f.file) for f in thread.python[:_MOST_FUNCTIONS] if f.file.endswith(".so")]
    kept = [name for name in (*names, *files) if not is_bystander_library(name)]
    return list(dict.fromkeys(kept))[:_MOST_FUNCTIONS]


def _waits_for(
    thread: ThreadStack, functions: Sequence[str], libraries: Sequence[str], box: BlackBox | None
) -> str | None:
    if box is not None and box.collective:
        return f"the other ranks in {box.collective}"
    if any(_OPENMP_LIBRARY.search(name) for name in libraries[:2]):
        return "the threads of its OpenMP pool"
    if _LOADER_FUNCTIONS.intersection(map(_bare, functions)):
        return "its DataLoader workers"
    return thread.waits_for


def _waits_on_process(thread: ThreadStack, box: BlackBox | None) -> bool:
    if box is not None and box.collective:
        return True
    innermost = [_bare(f.function) for f in thread.python[:4]]
    return any(_WAITS_FOR_PROCESS.match(f) or _COLLECTIVE.search(f) for f in innermost)


def _bare(function: str) -> str:
    """`Queue.get` is `get`: from 3.11 on, stacks name the class as well."""
    return function.rpartition(".")[2]


def _sentence(
    stall: Stall,
    pid: int,
    role: str,
    functions: Sequence[str],
    libraries: Sequence[str],
    waits_for: str | None,
    forked: bool,
) -> str:
    who = role_in_words(role)
    text = f"no progress for {seconds_in_words(stall.silent_seconds)}: {who} (pid {pid}) was in "
    text += " ← ".join(f"{name}()" for name in functions[:4]) if functions else "native code"
    text += f" ({libraries[0]})" if libraries else ""
    text += f", waiting for {waits_for}" if waits_for else ""
    text += "; it was forked from a process that had other threads" if forked else ""
    return sentence(text)


def _without_stacks(run: RecordedRun, stall: Stall) -> Observation:
    main = run.main
    return Observation(
        "stall",
        sentence(
            stall.summary or f"no progress for {seconds_in_words(stall.silent_seconds)} (no stacks)"
        ),
        f"vitals:{stall.t_seconds:.1f}",
        {
            "pid": main.pid if main else None,
            "role": main.role if main else None,
            "rank": None,
            "silent_seconds": stall.silent_seconds,
            "functions": [],
            "libraries": [],
            "waits_for": None,
            "waits_on_process": False,
            "forked_after_threads": False,
            "collective": None,
            "in_openmp": False,
            "t_seconds": stall.t_seconds,
        },
    )
