"""Where a process ended itself: the facts `exit_call`, `exit_caller` and `where`.

In: the black boxes, in which a process says that it called sys.exit or os._exit with a code other
than 0, and how each process ended. Out: claims of the main program, and of a worker that its parent
names as lost.
Promises: a call that something caught, so that the process ended in another way, is not told.
"""

from __future__ import annotations

from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.where import process_name, where_of
from rerail.evidence.settle import Claim
from rerail.platform.own_code import innermost_own
from rerail.platform.patterns import linear
from rerail.records import BlackBox, ProcessRecord
from rerail.wording import ray_worker_in_words

_CALL = linear(r"^(?:sys\.exit|os\._exit)\((?P<code>.*)\)$")


def exit_of_the_program(run: RecordedRun) -> list[Claim]:
    """Of the main process, or of the program that a shell or a launcher ended with."""
    code = run.info.outcome.exit_code if run.info.outcome else None
    calls = [(box, p) for box, p in _exit_calls(run) if p.role == "main" or p is run.main]
    told = [_facts(run, box, process) for box, process in calls if process.exit_code == code]
    return [Claim("exit-call", told[-1])] if told else []


def exit_of_a_lost_worker(run: RecordedRun, said: str) -> list[Claim]:
    """Of a worker whose process the parent's exception names; `said`: that exception."""
    for box, process in _exit_calls(run):
        if process is not run.main and str(process.pid) in said:
            return [Claim("lost-worker", _facts(run, box, process))]
    return []


def _exit_calls(run: RecordedRun) -> list[tuple[BlackBox, ProcessRecord]]:
    found = []
    for box in run.boxes:
        process = run.process_of(box)
        call = _CALL.search(box.exit_call or "")
        if process is None:
            continue
        if call is not None and process.exit_code == _exit_code(call["code"]):
            found.append((box, process))
    return found


def _exit_code(given: str) -> int:
    """As the system has it; Python ends with 1 for anything but a number."""
    return int(given) & 0xFF if given.lstrip("-").isdigit() else 1


def _facts(run: RecordedRun, box: BlackBox, process: ProcessRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {"exit_call": box.exit_call}
    name = process_name(process, run.rank_of(process))
    if of_ray := ray_worker_in_words(process.name):
        name = f"the {of_ray} (pid {process.pid})"
    elif process.role == "main":
        name = "the program"
    facts["exit_caller"] = name
    if own := innermost_own(box.exit_frames):
        facts["where"] = where_of(own, process, run.rank_of(process))
    return facts
