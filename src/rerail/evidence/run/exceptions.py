"""Uncaught exceptions of any process, read by the same catalogue as those in the output.

In: the black boxes, which hold what each process's own hook saw: type, message and frames. Out:
one `exception` observation per process, and what the catalogue says of type, message and frames as
they were recorded. So a rank whose output went elsewhere, or a worker whose traceback nobody
printed, gets the same answer as one in the log. Only the message is read as text, since it may
quote another traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rerail.evidence.first.before import failed_before
from rerail.evidence.first.lines import ECHO_TYPES
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.where import process_name, where_of
from rerail.evidence.settle import Claim
from rerail.evidence.text.lines import Line, to_lines
from rerail.evidence.text.logs import observe_exception
from rerail.evidence.text.observing import TextEvidence
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform.deadline import Deadline
from rerail.platform.own_code import innermost_own, is_own, named_function
from rerail.platform.patterns import linear
from rerail.records import BlackBox, Observation
from rerail.wording import process_in_words, sentence

MOST_READ = 16  # different exceptions; of 512 ranks most say the same
_NO_FAILURE = ("SystemExit", "KeyboardInterrupt")
# What a launcher raises because its child failed; the child's own exception tells why.
_OF_A_CHILD = ("CalledProcessError", "ChildFailedError", "ProcessRaisedException")

_PID = linear(r"\bpid(?:\(s\))?[ :=]{1,2}(\d{1,9})")
_WORKER = linear(r"^DataLoader worker (?P<number>\d{1,5})\b")
_CELL = linear(r"(?m)^(?P<file>Cell In\[\d{1,6}\]), line (?P<line>\d{1,9})\b")
_OF_DYNAMO = "from user code:"
_QUOTED = linear(
    r'File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,9})'
    r"(?:, in (?P<function>[\w.<>]{1,200}))?\n"
)


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
                    "is_echo": box.exception_type.rpartition(".")[2] in (*ECHO_TYPES, *_OF_A_CHILD),
                    "t_seconds": process.ended_t_seconds if process else None,
                },
            )
        )
    return found


def read_words_of_exceptions(
    run: RecordedRun,
    recorded: Sequence[Observation],
    deadline: Deadline,
    printed: Sequence[Observation] = (),
) -> tuple[list[Observation], list[Claim]]:
    """What the catalogue says of them, and what the one that ended the run claims.

    An exception that follows from another failure names no cause of its own.
    """
    observations: list[Observation] = []
    facts: dict[str, Any] = {}
    of_thread: dict[str, Any] = {}
    read = 0
    for box in _telling(run, recorded):
        is_of_a_child = (box.exception_type or "").rpartition(".")[2] in _OF_A_CHILD
        if (is_of_a_child or failed_before(run, box) is not None) and facts:
            continue  # the child has said why: that `make` failed is no trouble with building
        if read == MOST_READ or deadline.skips("exceptions of further processes"):
            break
        read += 1
        told = observe_exception(*traceback_of(box), deadline, _stream(box) or "")
        if failed_before(run, box, printed) is None:
            observations += [_of_box(o, box) for o in told.observations]
        if not facts and (not box.exception_thread or _is_waited_for(box, recorded)):
            facts = _facts_of(run, box, told)
        elif not facts and not of_thread:
            of_thread = {**_facts_of(run, box, told), "crashed_thread": box.exception_thread}
    facts = facts or (of_thread if _went_on(run) else {})
    return observations, [Claim("exception", facts)] if facts else []


def _telling(run: RecordedRun, recorded: Sequence[Observation]) -> list[BlackBox]:
    """Each exception that is a failure and no echo of another's, the most important first."""
    first = next((o for o in recorded if o.kind == "failed-first"), None)
    echoes = set(first.data.get("others") or ()) if first else set()
    found: dict[Any, BlackBox] = {}
    for box in sorted(run.boxes, key=lambda box: _importance(run, box, recorded)):
        kind = (box.exception_type or "").rpartition(".")[2]
        if not kind or kind in _NO_FAILURE or kind in ECHO_TYPES:
            continue
        if _stream(box) in echoes or is_of_a_lost_message(box):
            continue  # "connection closed by peer" is no trouble of the network's
        same = (box.exception_type, box.exception_text, tuple(box.exception_frames))
        found.setdefault(same, box)
    return list(found.values())


def _facts_of(run: RecordedRun, box: BlackBox, told: TextEvidence) -> dict[str, Any]:
    facts = _of_the_inner_one(_with_process(told.facts, run, box), told.observations, box)
    facts = _of_the_code_it_quotes(facts, box)
    return {**facts, **_in_hand(run, box, facts), **_followed_by(run, box)}


def _followed_by(run: RecordedRun, box: BlackBox) -> dict[str, Any]:
    """The exception by which a process said that another one had not done its part."""
    before = failed_before(run, box)
    if before is not None and before.process is not None:
        return {"exception_after": exception_of(box)}  # that one was killed without a word
    process = run.process_of(box)
    for other in run.boxes:
        before = failed_before(run, other)
        if before is not None and before.process is process and process is not None:
            return {"exception_after": exception_of(other)}
    return {}


def exception_of(box: BlackBox) -> dict[str, Any]:
    """The first line of what it raised, and where in the user's own code."""
    said = f"{box.exception_type}: {box.exception_text or ''}".partition("\n")[0].rstrip(": ")
    own = innermost_own(box.exception_frames)
    return {"text": said, "where": where_of(own, None) if own else None}


def _went_on(run: RecordedRun) -> bool:
    """Whether it ended as if nothing had been: then a thread's exception is all there is."""
    outcome = run.info.outcome
    return outcome is not None and outcome.kind == "ok"


def _is_waited_for(box: BlackBox, recorded: Sequence[Observation]) -> bool:
    """Whether the run hung because this thread was gone, whatever was printed after its words."""
    stalls = [o.data for o in recorded if o.kind == "stall" and o.data["pid"] == box.pid]
    return any((s.get("lost") or {}).get("thread") == box.exception_thread for s in stalls)


def _in_hand(run: RecordedRun, box: BlackBox, facts: dict[str, Any]) -> dict[str, Any]:
    """What the message does not name: the file, the server, where a relative path was looked for.

    Of a DataLoader worker's exception, which its parent raises once more, the worker has it.
    """
    worker = _WORKER.match(str((facts.get("where") or {}).get("process") or ""))
    if worker is not None:
        of_worker = [b for b in run.boxes if b.loader_worker == int(worker["number"])]
        holders = [b for b in of_worker if b.file_in_hand or b.peer_in_hand]
        box = holders[-1] if len({b.file_in_hand for b in holders}) == 1 else box
    found = {}
    if box.file_in_hand:
        found["file_in_hand"] = box.file_in_hand.removeprefix(f"{run.info.cwd}/")
    said = str(facts.get("exception_text"))
    if box.peer_in_hand and not all(part in said for part in box.peer_in_hand.split(":")):
        found["peer_in_hand"] = box.peer_in_hand
    if box.exception_cwd and box.exception_cwd != run.info.cwd:
        found["looked_in"] = box.exception_cwd.removeprefix(f"{run.info.cwd}/")
    return found


def _of_the_code_it_quotes(facts: dict[str, Any], box: BlackBox) -> dict[str, Any]:
    """A compiler of torch's raises where it was called, and quotes the line that it cannot take."""
    message = box.exception_text or ""
    quoted = message.partition(_OF_DYNAMO)[2]
    if (box.exception_type or "").startswith("torch.jit."):
        quoted = message
    own = [place for place in _QUOTED.finditer(quoted) if is_own(place["file"])]
    if not own or not facts.get("where"):
        return facts
    last = own[-1]
    code = message[last.end() :].partition("\n")[0].strip()
    place = {"file": last["file"], "line": int(last["line"]), "function": last["function"] or ""}
    kept = {name: value for name, value in facts["where"].items() if name == "process"}
    return {**facts, "where": {**place, **kept, **({"code": code[:160]} if code else {})}}


def _of_the_inner_one(
    facts: dict[str, Any], told: Sequence[Observation], box: BlackBox
) -> dict[str, Any]:
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
    elif cells := list(_CELL.finditer(box.exception_text or "")):
        last = cells[-1]
        kept["where"] = {"file": last["file"], "line": int(last["line"]), "function": ""}
    text = f"{inner['full_type']}: {inner['message']}".strip(": ")
    return {**kept, "exception": inner["type"], "exception_text": text}


def is_of_a_lost_message(box: BlackBox) -> bool:
    """torch.multiprocessing.spawn reads what its child has left in a file; a child that was ended
    while it wrote leaves half of it, and the parent then says "EOFError: Ran out of input"."""
    frame = box.exception_frames[0] if box.exception_frames else None
    return frame is not None and frame.file.endswith("torch/multiprocessing/spawn.py")


def traceback_of(box: BlackBox) -> tuple[TracebackText, list[Line]]:
    """Return a recorded exception as the matcher of signatures takes one, and its own words."""
    kind, message = str(box.exception_type), (box.exception_text or "").strip()
    if box.exception_thread:
        message = message.removeprefix(f"in {box.exception_thread}: ")
    words = f"{kind}: {message}" if message else kind
    lines = list(to_lines(enumerate(words.split("\n"), 1)))
    raised = TracebackText(1, len(lines), kind.rpartition(".")[2], kind)
    raised.has_header = bool(box.exception_frames)
    frames = box.exception_frames
    for at in reversed(range(len(frames))):
        frame, callers = frames[at], ((f.file, f.function) for f in frames[at + 1 : at + 4])
        function = named_function(frame.function, list(callers), frame.file)
        raised.add_frame(frame.file, frame.line, function)
    return raised, lines


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
    is_of_a_child = is_of_a_child or bool(_child_that_it_names(run, box))
    is_of_a_child = is_of_a_child or failed_before(run, box) is not None
    known = (not (is_first and is_rank), is_of_a_child, is_of_a_thread)
    return *known, order.get(role, 3), box.pid


def _child_that_it_names(run: RecordedRun, box: BlackBox) -> BlackBox | None:
    """ "DataLoader worker (pid(s) 4711) exited unexpectedly": the child itself says why."""
    said = {int(pid) for pid in _PID.findall((box.exception_text or "")[:400])}
    named = (b for b in run.boxes if b.pid in said and b is not box and b.exception_type)
    return next(named, None) if said else None


def _stream(box: BlackBox) -> str | None:
    return None if box.rank is None else f"rank {box.rank}"


def _of_box(observation: Observation, box: BlackBox) -> Observation:
    data = {**observation.data, "pid": box.pid, "stream": _stream(box)}
    return replace(observation, source=f"box:{box.pid}", data=data)


def _with_process(facts: dict[str, Any], run: RecordedRun, box: BlackBox) -> dict[str, Any]:
    """The place with the process; a forwarded traceback has named its worker already."""
    process = run.process_of(box)
    where = facts.get("where")
    if where and where.get("file") == "<string>" and _is_of_spawn(box):
        return _of_who_started_it(facts, run, box)
    if not where or process is None or str(where.get("process", "")).startswith("DataLoader"):
        return facts
    return {**facts, "where": {**where, "process": process_name(process, box.rank)}}


def _is_of_spawn(box: BlackBox) -> bool:
    """Whether it failed before any code of the user's ran in it: `python -c "… spawn_main(…)"`."""
    return any(frame.file.endswith("multiprocessing/spawn.py") for frame in box.exception_frames)


def _of_who_started_it(facts: dict[str, Any], run: RecordedRun, box: BlackBox) -> dict[str, Any]:
    """The place of a process that could not begin: where its parent was told that it is gone."""
    kept = {name: facts[name] for name in facts if name not in ("where", "raised_at")}
    parent = next((b for b in run.boxes if _child_that_it_names(run, b) is box), None)
    if parent is None:
        return kept
    own = innermost_own(parent.exception_frames)
    if own is None:
        return kept
    is_worker = "DataLoader worker" in (parent.exception_text or "")
    who = f"{'DataLoader worker' if is_worker else 'child process'} (pid {box.pid})"
    return {**kept, "where": {**where_of(own, None), "process": who}}
