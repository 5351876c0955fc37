"""Uncaught exceptions of any process, read by the same catalogue as those in the output.

In: the black boxes, which hold what each process's own hook saw: type, message and frames. Out:
one `exception` observation per process, and what the text readers see when the exception is
written down as Python would have printed it. So a rank whose output went elsewhere, or a worker
whose traceback nobody printed, gets the same answer as one in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.where import process_name
from rerail.evidence.text.logs import observe_text
from rerail.evidence.text.ranks import ECHO_TYPES
from rerail.platform.deadline import Deadline
from rerail.records import BlackBox, Observation
from rerail.wording import process_in_words, sentence

MOST_READ = 16  # different exceptions; of 512 ranks most say the same
_NO_FAILURE = ("SystemExit", "KeyboardInterrupt")
_READ_KINDS = ("line", "traceback")
# What a launcher raises because its child failed; the child's own exception tells why.
_OF_A_CHILD = ("CalledProcessError", "ChildFailedError", "ProcessRaisedException")


def read_exceptions(run: RecordedRun) -> list[Observation]:
    """Each as its process's own hook saw it."""
    found = []
    for box in run.boxes:
        if box.exception_type is None or box.exception_type == "SystemExit":
            continue
        process = run.process_of(box)
        message = (box.exception_text or "").strip()
        first = " ".join(message.split())
        who = process_in_words(process) if process else f"a process (pid {box.pid})"
        is_named = first.startswith(box.exception_type)
        shown = first if is_named else f"{box.exception_type}: {first}".rstrip(": ")
        found.append(
            Observation(
                "exception",
                sentence(f"uncaught in {who}: {shown[:280]}"),
                f"box:{box.pid}",
                {
                    "type": box.exception_type,
                    "message": message,
                    "rank": box.rank,
                    "stream": _stream(box),
                    "role": run.role_of(box),
                    "python_function": None,
                    "pid": box.pid,
                    "thread": box.exception_thread,
                    "t_seconds": process.ended_t_seconds if process else None,
                },
            )
        )
    return found


def read_words_of_exceptions(
    run: RecordedRun, recorded: Sequence[Observation], deadline: Deadline
) -> tuple[list[Observation], dict[str, Any]]:
    """What the catalogue says of them, and the facts of the one that ended the run."""
    observations: list[Observation] = []
    facts: dict[str, Any] = {}
    seen: set[str] = set()
    first = next((o for o in recorded if o.kind == "failed-first"), None)
    echoes = set(first.data.get("others") or ()) if first else set()
    for box in sorted(run.boxes, key=lambda box: _importance(run, box, recorded)):
        kind = (box.exception_type or "").rpartition(".")[2]
        if not kind or kind in _NO_FAILURE:
            continue
        if kind in ECHO_TYPES or _stream(box) in echoes or is_of_a_lost_message(box):
            continue  # "connection closed by peer" is no trouble of the network's
        if kind in _OF_A_CHILD and facts:
            continue  # the child has said why: that `make` failed is no trouble with building
        text = as_python_prints_it(box)
        if text in seen:
            continue
        if len(seen) == MOST_READ or deadline.skips("exceptions of further processes"):
            break
        seen.add(text)
        told = observe_text(list(enumerate(text.split("\n"), 1)), deadline, _stream(box) or "")
        observations += [_of_box(o, box) for o in told.observations if o.kind in _READ_KINDS]
        if not facts and (not box.exception_thread or _is_waited_for(box, recorded)):
            facts = _of_the_inner_one(_with_process(told.facts, run, box), told.observations)
            facts.update(_in_hand(run, box))
    return observations, facts


def _is_waited_for(box: BlackBox, recorded: Sequence[Observation]) -> bool:
    """Whether the run hung because this thread was gone, whatever was printed after its words."""
    stalls = [o.data for o in recorded if o.kind == "stall" and o.data["pid"] == box.pid]
    return any((s.get("lost") or {}).get("thread") == box.exception_thread for s in stalls)


def _in_hand(run: RecordedRun, box: BlackBox) -> dict[str, Any]:
    """The file that the message does not name, and where a relative path was looked for."""
    found = {}
    if box.file_in_hand:
        found["file_in_hand"] = box.file_in_hand.removeprefix(f"{run.info.cwd}/")
    if box.exception_cwd and box.exception_cwd != run.info.cwd:
        found["looked_in"] = box.exception_cwd.removeprefix(f"{run.info.cwd}/")
    return found


def _of_the_inner_one(facts: dict[str, Any], told: Sequence[Observation]) -> dict[str, Any]:
    """A notebook's runner raises an exception whose message holds the cell's in full: name that.

    The place of the outer one is the runner's, and is left out.
    """
    tracebacks = [o for o in told if o.kind == "traceback" and o.data.get("type")]
    if len(tracebacks) < 2 or facts.get("exception") != tracebacks[0].data["type"]:
        return facts
    inner = tracebacks[-1].data
    if inner["type"] == facts["exception"] or inner["type"] in ECHO_TYPES:
        return facts
    kept = {name: facts[name] for name in facts if name not in ("where", "raised_at")}
    if inner.get("where"):
        kept.update(where=inner["where"], raised_at=inner.get("raised_at"))
    text = f"{inner['full_type']}: {inner['message']}".strip(": ")
    return {**kept, "exception": inner["type"], "exception_text": text}


def is_of_a_lost_message(box: BlackBox) -> bool:
    """torch.multiprocessing.spawn reads what its child has left in a file; a child that was ended
    while it wrote leaves half of it, and the parent then says "EOFError: Ran out of input"."""
    frame = box.exception_frames[0] if box.exception_frames else None
    return frame is not None and frame.file.endswith("torch/multiprocessing/spawn.py")


def as_python_prints_it(box: BlackBox) -> str:
    lines = ["Traceback (most recent call last):"] if box.exception_frames else []
    for frame in reversed(box.exception_frames):
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
    message = (box.exception_text or "").strip()
    if box.exception_thread:
        message = message.removeprefix(f"in {box.exception_thread}: ")
    lines.append(f"{box.exception_type}: {message}" if message else str(box.exception_type))
    return "\n".join(lines)


def _importance(
    run: RecordedRun, box: BlackBox, recorded: Sequence[Observation]
) -> tuple[bool, bool, bool, int, int]:
    """Who failed first, then the main process, then ranks, then everybody else."""
    first = next((o for o in recorded if o.kind == "failed-first"), None)
    is_first = first is not None and box.rank == first.data.get("rank")
    role = run.role_of(box)
    order = {"main": 0, "rank": 1, "loader-worker": 2}
    is_rank = role in ("main", "rank", "child")
    is_of_a_child = (box.exception_type or "").rpartition(".")[2] in _OF_A_CHILD
    is_of_a_thread = bool(box.exception_thread)
    known = (not (is_first and is_rank), is_of_a_child, is_of_a_thread)
    return *known, order.get(role, 3), box.pid


def _stream(box: BlackBox) -> str | None:
    return None if box.rank is None else f"rank {box.rank}"


def _of_box(observation: Observation, box: BlackBox) -> Observation:
    data = {**observation.data, "pid": box.pid, "stream": _stream(box)}
    return replace(observation, source=f"box:{box.pid}", data=data)


def _with_process(facts: dict[str, Any], run: RecordedRun, box: BlackBox) -> dict[str, Any]:
    """The place with the process; a forwarded traceback has named its worker already."""
    process = run.process_of(box)
    where = facts.get("where")
    if not where or process is None or str(where.get("process", "")).startswith("DataLoader"):
        return facts
    return {**facts, "where": {**where, "process": process_name(process, box.rank)}}
