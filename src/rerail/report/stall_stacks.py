"""The stacks of a stall as text: Python first, the user's own lines marked.

In: a recorded run. Out: lines, none if it did not stand still. The process that the others wait for
comes first; native functions are one line below the Python frames that called them.
"""

from __future__ import annotations

from rerail.evidence import RecordedRun, read_stalls, telling_stall
from rerail.platform.os_text import printable
from rerail.platform.own_code import is_own
from rerail.records import Observation, PythonFrame, Stall, ThreadStack
from rerail.wording import duration_in_words, file_name

MOST_PROCESSES = 4
MOST_THREADS = 6
MOST_FRAMES = 12
_MOST_NATIVE = 4


def stall_stack_lines(run: RecordedRun) -> list[str]:
    stall = telling_stall(run)
    if stall is None:
        return []
    silent = duration_in_words(stall.silent_seconds)
    what = "Where it stood still" if stall.kind == "stuck" else "What it did without a word"
    lines = [f"{what} (after {silent} without a step and without output)"]
    seen = read_stalls(run)
    for observation in seen[:MOST_PROCESSES]:
        lines += process_lines(observation, stall)
    if len(seen) > MOST_PROCESSES:
        lines.append(f"  and {len(seen) - MOST_PROCESSES} more processes")
    return [printable(line) for line in lines]


def process_lines(observation: Observation, stall: Stall) -> list[str]:
    data = observation.data
    key = next((k for k in stall.stacks if k.startswith(f"{data['pid']}-")), None)
    threads = stall.stacks[key] if key else []
    told = [thread for thread in threads if thread.python] or threads[:1]
    lines = []
    for thread in told[:MOST_THREADS]:
        is_telling = observation.source.endswith(f":{thread.thread_id}")
        waits = data["waits_for"] if is_telling else thread.waits_for
        if is_telling and (holder := data["holder"]) is not None:
            waits = f"{waits} that {holder['thread']} holds"
        does = f": waits for {waits}" if waits and not waits.startswith("nothing") else ""
        lines.append(f"  {_called(data, thread)}{does}")
        lines += [f"    {_frame(frame)}" for frame in thread.python[:MOST_FRAMES]]
        if len(thread.python) > MOST_FRAMES:
            lines.append(f"    … {len(thread.python) - MOST_FRAMES} more frames")
        native = [f.function.split("(")[0] for f in thread.native if f.function][:_MOST_NATIVE]
        if native:
            lines.append(f"    native: {' < '.join(native)}")
    return lines


def _called(data: dict[str, object], thread: ThreadStack) -> str:
    is_main = thread.thread_id == data["pid"]
    name = "main thread" if is_main else f"thread {thread.name or thread.thread_id}"
    return f"{data['role']} (pid {data['pid']}), {name}"


def _frame(frame: PythonFrame) -> str:
    mark = ">" if is_own(frame.file) else " "
    name = frame.function.replace("<locals>.", "")
    call = name if name.startswith("<") else f"{name}()"
    return f"{mark} {file_name(frame.file)}:{frame.line} {call}"
