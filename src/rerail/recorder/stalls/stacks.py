"""What every process of the tree is doing right now: stacks and what each thread waits for.

In: the processes, the agent's folder and how long it may take. Out: per process its threads, the
main one first. Python and native frames come from py-spy or pystack, else Python frames from the
agent inside; wait channels and the innermost native frame of a waiting thread come from /proc
and are there in any case. Promises: ends within the given time, plus what /proc takes; nothing
raises; a process that cannot be read has the threads that /proc tells of, or is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.platform.proc_files import read_start_ticks
from rerail.recorder.kernel.symbols import AddressNamer
from rerail.recorder.stalls import stacks_by_debugger as spied
from rerail.recorder.stalls import stacks_by_signal as asked
from rerail.recorder.stalls import waits
from rerail.recorder.stalls.thread_ids import kernel_ids
from rerail.recorder.stalls.waits import Waiting
from rerail.records import NativeFrame, ThreadStack
from rerail.store import AgentDir

AT_ONCE = 2
LONGEST_ASK_SECONDS = 1.0


def take(
    processes: Sequence[Any], agent_dir: AgentDir, seconds: float = 5.0, *, may_disturb: bool = True
) -> dict[str, list[ThreadStack]]:
    """Stacks by ProcessRecord.key; `processes` are records or (pid, start) pairs.

    Without `may_disturb` nothing is stopped and no signal is sent: either can interrupt a system
    call, and a run that is only quiet must not notice that it was looked at.
    """
    deadline = time.monotonic() + seconds
    identities = [
        identity
        for identity in map(_identity, processes)
        if read_start_ticks(identity[0]) in (identity[1], None) or identity[1] == 0
    ]
    tree = [pid for pid, _ in identities]
    waiting = {pid: waits.look(pid, tree) for pid in tree}
    taken: dict[int, list[ThreadStack]] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rerail-stacks") as pool:

        def take_one(identity: tuple[int, int]) -> None:
            pid, start_ticks = identity
            if may_disturb:
                found = _take_one(pid, start_ticks, agent_dir, waiting[pid], deadline)
            else:
                found = _take_gently(pid, deadline)
            if found:
                taken[pid] = found

        list(pool.map(take_one, _most_telling_first(identities, waiting)))
    result: dict[str, list[ThreadStack]] = {}
    for pid, start_ticks in identities:
        threads = _merge(pid, taken.get(pid, []), waiting[pid])
        if threads:
            namer = AddressNamer(pid, max(deadline - time.monotonic(), 0.3))
            result[f"{pid}-{start_ticks}"] = _name(threads, namer)
    return result


def _identity(process: Any) -> tuple[int, int]:
    if hasattr(process, "pid"):
        return int(process.pid), int(getattr(process, "start_ticks", 0))
    return int(process[0]), int(process[1])


def _most_telling_first(
    identities: list[tuple[int, int]], waiting: dict[int, list[Waiting]]
) -> list[tuple[int, int]]:
    """Children before their parents: the parent usually waits for the one that is stuck."""
    return sorted(
        (identity for identity in identities if waiting[identity[0]]),
        key=lambda identity: identity[0],
        reverse=True,
    )


def _take_one(
    pid: int, start_ticks: int, agent_dir: AgentDir, waiting: list[Waiting], deadline: float
) -> list[ThreadStack] | None:
    left = deadline - time.monotonic()
    if left <= 0 or not _is_python(pid):
        return None
    # Half of what is left at the most: one process that cannot be read must not use up all.
    threads = spied.take(pid, len(waiting), left / 2)
    if threads:
        return threads
    left = min(deadline - time.monotonic(), LONGEST_ASK_SECONDS)
    return asked.take(pid, start_ticks, agent_dir, left) if left > 0 else None


def _take_gently(pid: int, deadline: float) -> list[ThreadStack] | None:
    left = deadline - time.monotonic()
    return spied.take_gently(pid, left / 2) if left > 0 and _is_python(pid) else None


def _is_python(pid: int) -> bool:
    """Has it an interpreter mapped? Asking py-spy about a shell would only cost time."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return os.name != "posix" or not Path("/proc/self").exists()
    return "python" in text


def _merge(pid: int, taken: Iterable[ThreadStack], waiting: list[Waiting]) -> list[ThreadStack]:
    """What programs told of the threads, and what /proc tells of all of them."""
    taken = list(taken)
    ids = kernel_ids((thread.thread_id for thread in taken), pid, waiting)
    by_id = {
        ids[thread.thread_id]: replace(thread, thread_id=ids[thread.thread_id]) for thread in taken
    }
    merged: list[ThreadStack] = []
    for other in waiting:
        known = by_id.pop(other.thread_id, None) or ThreadStack(other.thread_id, other.name)
        native = known.native
        if not native and other.address is not None:
            native = [NativeFrame(other.address)]
        merged.append(
            replace(known, native=native, waits_for=other.waits_for, name=known.name or other.name)
        )
    merged += by_id.values()  # where there is no /proc
    return sorted(merged, key=lambda t: (t.thread_id != pid, not t.python, t.thread_id))


def _name(threads: list[ThreadStack], namer: AddressNamer) -> list[ThreadStack]:
    """Functions for frames that are only addresses so far."""
    unnamed = [
        frame.address
        for thread in threads
        for frame in thread.native
        if frame.function is None and frame.address
    ]
    named = namer.name(unnamed)
    return [
        replace(thread, native=[named.get(frame.address, frame) for frame in thread.native])
        for thread in threads
    ]
