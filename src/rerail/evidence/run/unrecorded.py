"""Processes that died of a fault of which there is no crash record.

In: a recorded run. Out: a `kernel-line` where the kernel's log tells of the fault, else a
`crash-unrecorded` where the handler was in place and could not run. The kernel runs a handler on
the thread's own stack unless that thread has another one, and native threads that were not started
through the agent have none: if that stack has run out, the kernel ends the process, and as the
signal counts as handled, it writes no line either.
"""

from __future__ import annotations

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.text.kernel_lines import KernelLine, read_kernel_line
from rerail.evidence.text.lines import Line
from rerail.records import Observation, ProcessRecord
from rerail.wording import process_in_words, sentence

_FAULTS = ("SIGSEGV", "SIGBUS")
_LONGEST_NAME = 15  # the kernel cuts names


def read_unrecorded_crashes(run: RecordedRun) -> list[Observation]:
    recorded = {f"{crash.pid}-{crash.start_ticks}" for crash in run.crashes}
    found = []
    for process in run.processes:
        if process.signal not in _FAULTS or process.key in recorded:
            continue
        seen = _from_kernel(run, process) or _from_box(run, process)
        if seen is not None:
            found.append(seen)
    return found


def _from_kernel(run: RecordedRun, process: ProcessRecord) -> Observation | None:
    for number, text in enumerate(run.after.kernel_lines):
        line = read_kernel_line(Line(number + 1, text))
        if line is None or line.what not in ("segfault", "trap") or not _is_of(line, run, process):
            continue
        who = process_in_words(process)
        what = f"A fault in {who}"
        if line.fields.get("is_stack_overflow"):
            what = f"A fault at the stack pointer of {who}: its stack had run out"
        words = f"{what}. The kernel wrote: {text.strip()}"
        return Observation(
            kind="kernel-line",
            text=sentence(words),
            source=f"kernel:{number + 1}",
            data={"what": line.what, **line.fields, "pid": process.pid},
        )
    return None


def _is_of(line: KernelLine, run: RecordedRun, process: ProcessRecord) -> bool:
    """The kernel names the thread: its number is the process's own in the main thread only."""
    number = int(line.fields["pid"])
    if any(number == other.pid for other in run.processes):
        return number == process.pid
    return bool(line.fields.get("name") == process.name[:_LONGEST_NAME])


def _from_box(run: RecordedRun, process: ProcessRecord) -> Observation | None:
    box = run.box_of(process)
    if box is None or not box.handler_installed or box.handler_ran or box.said_goodbye:
        return None
    return Observation(
        kind="crash-unrecorded",
        text=sentence(
            f"{process.signal} and no record of it: a native thread had no stack left for the"
            f" handler, or had the signal blocked, in {process_in_words(process)}"
        ),
        source=f"exit:{process.pid}",
        data={
            "pid": process.pid,
            "role": process.role,
            "rank": run.rank_of(process),
            "signal": process.signal,
        },
    )
