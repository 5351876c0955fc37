"""The kernel's ids of threads that are only known by their pthread_self().

In: pthread ids, and the threads of the process as /proc shows them. Out: the same ids, each with
the kernel's. glibc puts a thread's descriptor, whose address pthread_self() is, at the upper end of
its stack: the thread whose stack pointer lies closest below is the one. The main thread's lies
elsewhere, and what finds no stack is the main thread. Needed for faulthandler, and for debuggers
below CPython 3.11, whose thread states do not name the kernel's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.recorder.stalls.waits import Waiting

_LONGEST_STACK_BYTES = 64 << 20


def kernel_ids(ids: Iterable[int], pid: int, waiting: Sequence[Waiting]) -> dict[int, int]:
    """Ids that the kernel knows stay as they are; where there is no /proc, all of them do."""
    ids = list(ids)
    known = {other.thread_id for other in waiting}
    found = {each: each for each in ids if each in known or not waiting}
    free = [
        (other.stack_pointer, other.thread_id)
        for other in waiting
        if other.stack_pointer and other.thread_id != pid and other.thread_id not in found
    ]
    for each in ids:
        if each in found:
            continue
        below = [
            (each - pointer, thread_id)
            for pointer, thread_id in free
            if 0 < each - pointer < _LONGEST_STACK_BYTES
        ]
        found[each] = min(below)[1] if below else pid
        free = [other for other in free if other[1] != found[each]]
    return found
