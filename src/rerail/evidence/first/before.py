"""Who failed before, where an exception only says that something is not there?

In: a recorded run, the exception of one of its processes, and what the output shows. Out: the
process or thread that failed before and should have left what is missed, or None. Three links are
taken, and nothing is guessed without one: the other end of a pipe was a child that had raised; the
missing file lies where a failed process was told to write; a thread of the same process had raised,
and what it should have given is not there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import BlackBox, Observation, ProcessRecord

_LOST_A_PEER = ("EOFError", "BrokenPipeError", "ConnectionResetError")
_OF_PIPES = "multiprocessing/connection.py"
_MISSED_FILE = linear(r"No such file or directory: '(?P<path>[^'\n]{1,1000})'")
_FINDS_NOTHING = linear(
    r"^(?:\w+\.)*(?:IndexError|KeyError|StopIteration|Empty)\b|'NoneType'|\bNoneType object\b"
)
_IS_EMPTY = linear(
    r"\bempty (?:sequence|iterable|list|array|slice)\b|need at least one array|zero-size array"
)
_OF_A_THREAD = linear(r"threading\.py:\d+ _bootstrap_inner$")
_SEEN_LATER_SECONDS = 0.5  # an end is seen a little later than it is
_MOST_ARGUMENTS = 200


@dataclass(frozen=True)
class FailedBefore:
    """Exactly one of them: a process, or the traceback that a thread printed."""

    process: ProcessRecord | None = None
    of_thread: Observation | None = None


def failed_before(
    run: RecordedRun, box: BlackBox, printed: Sequence[Observation] = ()
) -> FailedBefore | None:
    """Return whose failure the exception of this process follows from; `printed`: the output's."""
    raised_t = box.exception_t_seconds
    if not box.exception_type or raised_t is None or box.exception_thread:
        return None
    failed = sorted(_that_failed(run, box, raised_t), key=lambda one: one[0])
    if _has_lost_a_peer(box):
        of_raised = [p for t, p in failed if p.parent_pid == box.pid and _has_raised(run, p)]
        return FailedBefore(of_raised[0]) if of_raised else None
    if missed := _MISSED_FILE.search(box.exception_text or ""):
        path = posixpath.normpath(posixpath.join(run.info.cwd, missed["path"]))
        told = [p for _, p in failed if _was_told_to_write(run, p, path)]
        return FailedBefore(told[0]) if told else None
    thread = _thread_before(box, printed)
    return FailedBefore(of_thread=thread) if thread is not None else None


def is_of_emptiness(said: str) -> bool:
    """Whether an exception says that a collection is empty: nothing was put into it."""
    return _IS_EMPTY.search(said) is not None


def what_it_ran(of_thread: Observation) -> str:
    """ "run()": the function that the thread was started with; its name is not in a traceback."""
    frames = [str(frame) for frame in of_thread.data.get("frames") or ()]
    ran = [frame for frame in frames if "/threading.py:" not in frame]
    return f"{ran[0].rpartition(' ')[2]}()" if ran else "Python"


def _that_failed(
    run: RecordedRun, box: BlackBox, raised_t: float
) -> Iterator[tuple[float, ProcessRecord]]:
    """Each Python process that had raised or was killed before, with the time of it."""
    for process in run.processes:
        own = run.box_of(process)
        if own is None or own is box or not (process.signal or process.exit_code):
            continue
        failed_t, latest_t = own.exception_t_seconds, raised_t
        if not own.exception_type and process.signal:
            failed_t, latest_t = process.ended_t_seconds, raised_t + _SEEN_LATER_SECONDS
        if failed_t is not None and failed_t < latest_t and own.exception_type != "SystemExit":
            yield failed_t, process


def _has_raised(run: RecordedRun, process: ProcessRecord) -> bool:
    own = run.box_of(process)
    return own is not None and own.exception_type is not None


def _has_lost_a_peer(box: BlackBox) -> bool:
    is_of_pipes = any(frame.file.endswith(_OF_PIPES) for frame in box.exception_frames[:3])
    return box.exception_type in _LOST_A_PEER and is_of_pipes


def _was_told_to_write(run: RecordedRun, process: ProcessRecord, path: str) -> bool:
    """Whether an argument of its command is this file, or a folder that holds it."""
    for argument in process.command[1:_MOST_ARGUMENTS]:
        named = argument.rpartition("=")[2]
        if not named or named.startswith("-"):
            continue
        place = posixpath.normpath(posixpath.join(run.info.cwd, named))
        is_too_wide = f"{run.info.cwd}/".startswith(f"{place.rstrip('/')}/")
        if not is_too_wide and (path == place or path.startswith(f"{place}/")):
            return True
    return False


def _thread_before(box: BlackBox, printed: Sequence[Observation]) -> Observation | None:
    """The agent keeps the last exception of a process alone; a thread's has been printed."""
    said = f"{box.exception_type}: {box.exception_text or ''}"
    if not (_FINDS_NOTHING.search(said) or _IS_EMPTY.search(said)):
        return None
    for o in printed:
        data = o.data
        if o.kind != "traceback" or not data.get("type") or data.get("was_handled"):
            continue
        if any(_OF_A_THREAD.search(frame) for frame in data.get("frames") or ()):
            return o
    return None
