"""Everything that can be observed of a recorded run.

In: a run folder, and earlier runs of the same command. Out: `Evidence`. Promises: a reader that
trips over a damaged record costs its own observations only, and the evidence says so in a `missing`
observation; the text of the output is read by the same readers as any log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rerail.catalogue import load_catalogue
from rerail.errors import RerailError
from rerail.evidence.first.boxes import read_failed_first
from rerail.evidence.run.census import read_copied_growth, read_leaks
from rerail.evidence.run.chains import with_the_first_of_a_chain
from rerail.evidence.run.crashes import read_crashes
from rerail.evidence.run.disks import full_mount_facts
from rerail.evidence.run.exceptions import (
    is_of_a_lost_message,
    read_exceptions,
    read_words_of_exceptions,
)
from rerail.evidence.run.exit_calls import exit_of_a_lost_worker, exit_of_the_program
from rerail.evidence.run.exits import read_deaths, read_outcome, read_outside_signals
from rerail.evidence.run.facts import read_facts
from rerail.evidence.run.flight_evidence import read_flight_recorder
from rerail.evidence.run.history import MOST_RUNS, PastEnd, past_end, read_history
from rerail.evidence.run.libraries import read_libraries
from rerail.evidence.run.limits import read_limits
from rerail.evidence.run.log_files import with_log_files
from rerail.evidence.run.material import RecordedRun, read_material
from rerail.evidence.run.memory import read_memory_growth, read_near_memory_limits
from rerail.evidence.run.oom import read_oom_kills
from rerail.evidence.run.output import observe_output
from rerail.evidence.run.progress import (
    NOT_TRAINING,
    not_of_another_job,
    read_loaded_files,
    read_progress,
    read_settings,
)
from rerail.evidence.run.ray_driver import with_worker_of_ray
from rerail.evidence.run.ray_worker import outcome_by_ray, ray_facts, read_ray, with_ray_words
from rerail.evidence.run.stalls import read_stalls
from rerail.evidence.run.unrecorded import read_unrecorded_crashes
from rerail.evidence.text.observing import TextEvidence
from rerail.platform.deadline import Deadline, no_deadline
from rerail.platform.patterns import linear
from rerail.records import CRASH_SIGNALS, Evidence, Observation
from rerail.store import RunFolder
from rerail.wording import sentence

Reader = Callable[[RecordedRun], list[Observation]]

# What a parent says of a child that is gone: not the child's own words.
_OF_A_CHILD = linear(r"[Ww]orker|subprocess|[Pp]rocess(?:es)? (?:died|exited|terminated|was)")

# The end of a traceback that came from another process as text.
_FORWARDED = linear(r'\s*"""\s*$')

# In the order in which a person would want to hear them.
READERS: tuple[Reader, ...] = (
    read_deaths,
    read_outside_signals,
    read_ray,
    read_oom_kills,
    read_crashes,
    read_unrecorded_crashes,
    read_stalls,
    read_failed_first,
    read_exceptions,
    read_progress,
    read_near_memory_limits,
    read_memory_growth,
    read_copied_growth,
    read_leaks,
    read_limits,
    read_libraries,
    read_settings,
    read_loaded_files,
)


def collect_run(
    folder: RunFolder, history: Sequence[RunFolder] = (), deadline: Deadline | None = None
) -> Evidence:
    """All observations of one run; `history`: earlier runs of its fingerprint."""
    deadline = deadline or no_deadline()
    run = read_material(folder)
    printed = with_ray_words(run, observe_output(folder, deadline), deadline)
    text = with_log_files(run, printed, deadline)
    evidence = collect_recorded(run, _past_ends(history, deadline), text, deadline)
    return with_worker_of_ray(
        folder, evidence, lambda worker: collect_run(worker, deadline=deadline)
    )


def collect_recorded(
    run: RecordedRun,
    earlier: Sequence[PastEnd] = (),
    text: TextEvidence | None = None,
    deadline: Deadline | None = None,
) -> Evidence:
    """The same from records in hand; `text` is what the text readers saw in the output."""
    text = text or TextEvidence()
    deadline = deadline or no_deadline()
    observations: list[Observation] = []
    for reader in READERS:
        if not deadline.skips(_name_of(reader)):
            observations += _read(reader, run)
    observations = _before_its_teardown(run, observations)
    if all(o.kind != "failed-first" for o in observations):
        observations += _read(read_flight_recorder, run)
    observations = [_with_its_words(o, text.observations) for o in observations]
    observations += read_history(run, earlier)
    told, told_facts = read_words_of_exceptions(run, observations, deadline)
    observations += told
    observations += _not_contradicting(run, observations, text.observations)
    observations += [_missing(run, what, why) for what, why in run.missing]
    raised = _where_a_worker_raised(_with_its_code(told_facts, text.facts), text.observations)
    raised = with_the_first_of_a_chain(raised, text.observations)
    facts = {
        **exit_of_the_program(run),
        **_not_of_another_bar(_not_of_an_echo(text.facts, observations), run),
        **raised,
        **exit_of_a_lost_worker(run, raised),
        **read_facts(run, observations),
        **_place_of_whom_it_waited_for({**text.facts, **raised}, observations),
        **ray_facts(run),
    }
    facts = not_of_another_job(facts, run)
    said = str(facts.get("exception_text") or "")
    facts.update(full_mount_facts(run, said, str(facts.get("file_in_hand") or "")))
    return Evidence(
        outcome=outcome_by_ray(run) or read_outcome(run),
        observations=observations,
        facts=facts,
        origin="run",
        incomplete=deadline.sentence,
    )


def _place_of_whom_it_waited_for(
    raised: dict[str, Any], observations: Sequence[Observation]
) -> dict[str, Any]:
    """Where a worker or a thread raised, of a run that then hung because that one was gone."""
    where = raised.get("where") or {}
    lost = [o.data["lost"] for o in observations if o.kind == "stall" and o.data.get("lost")]
    of = str(where.get("process"))
    is_of_one = any(one.get("thread") or f"(pid {one['pid']})" in of for one in lost)
    return {"where": where} if where and is_of_one else {}


def _name_of(reader: Reader) -> str:
    return reader.__name__.removeprefix("read_").replace("_", " ")


def _read(reader: Reader, run: RecordedRun) -> list[Observation]:
    try:
        return reader(run)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError) as error:
        # A folder that was damaged or written by a newer rerail may hold what no reader expects.
        return [_missing(run, _name_of(reader), f"{type(error).__name__}: {error}")]


def _before_its_teardown(
    run: RecordedRun, observations: Sequence[Observation]
) -> list[Observation]:
    """A process that an exception has ended may crash while it is torn down: no crash of its own.

    Threads of a library still run then, and C++ aborts: "terminate called without an active
    exception".
    """
    raised = {
        box.pid: box.exception_t_seconds or 0.0
        for box in run.boxes
        if box.exception_type and not box.exception_thread
    }
    kept = []
    for o in observations:
        is_crash = o.kind in ("crash", "death") and o.data.get("signal") in CRASH_SIGNALS
        if not is_crash or o.data["pid"] not in raised:
            kept.append(o)
        elif o.kind == "death":
            kept.append(replace(o, data={**o.data, "said_why": True}))
        elif (o.data.get("t_seconds") or 0.0) < raised[o.data["pid"]]:
            kept.append(o)
    return kept


def _with_its_words(death: Observation, from_text: Sequence[Observation]) -> Observation:
    """A child that ended with 1, as Python does after a traceback, while the output shows one."""
    if death.kind != "death" or death.data.get("exit_code") != 1 or death.data.get("is_main"):
        return death
    said_why = any(
        o.kind == "traceback"
        and o.data.get("type")
        and not (o.data.get("is_echo") or o.data.get("was_handled") or o.data.get("is_lone"))
        and not _OF_A_CHILD.search(o.data.get("message", ""))
        for o in from_text
    )
    return replace(death, data={**death.data, "said_why": said_why})


def _not_contradicting(
    run: RecordedRun, recorded: Sequence[Observation], from_text: Sequence[Observation]
) -> list[Observation]:
    """Who failed first is known better from the processes' ends than from the order of lines.

    What the output shows of an exception of those who failed after it is their echo, and so is
    what they say of a signal that ended them: the launcher sent it, when the first one had failed.
    """
    first = next((o for o in recorded if o.kind == "failed-first"), None)
    if first is None:
        return list(from_text)
    others = set(first.data.get("others") or ())
    echoes = {
        _in_one_line(box.exception_type, box.exception_text)
        for box in run.boxes
        if box.exception_type and (f"rank {box.rank}" in others or is_of_a_lost_message(box))
    }
    echoed = {
        o.source
        for o in from_text
        if o.kind == "traceback"
        and _in_one_line(o.data.get("type"), o.data.get("message")) in echoes
    }
    echoed |= {
        o.source
        for o in from_text
        if o.kind == "line"
        and o.data.get("stream") in others
        and load_catalogue().policy_of(o.data.get("cause")).is_from_outside
    }
    return [o for o in from_text if o.kind != "failed-first" and o.source not in echoed]


def _in_one_line(kind: str | None, message: str | None) -> tuple[str, str]:
    """An exception's type and the first line of its message, to know it again."""
    return (kind or "").rpartition(".")[2], (message or "").strip().partition("\n")[0]


_OF_AN_EXCEPTION = ("where", "raised_at", "exception", "exception_text")


def _not_of_an_echo(facts: dict[str, Any], recorded: Sequence[Observation]) -> dict[str, Any]:
    """Where the others raised is not where it failed, if one is known to have failed first."""
    first = next((o for o in recorded if o.kind == "failed-first"), None)
    process = (facts.get("where") or {}).get("process")
    if first is None or process == first.data.get("who"):
        return facts
    return {name: value for name, value in facts.items() if name not in _OF_AN_EXCEPTION}


def _not_of_another_bar(facts: dict[str, Any], run: RecordedRun) -> dict[str, Any]:
    """How many steps an evaluation has is not how many the training has."""
    box = run.training_box
    if box is None or box.phase not in NOT_TRAINING:
        return facts
    return {name: value for name, value in facts.items() if name != "total"}


def _with_its_code(told: dict[str, Any], printed: dict[str, Any]) -> dict[str, Any]:
    """The black box has no lines of code; the traceback in the output may have the same frame's."""
    known, shown = told.get("where"), printed.get("where")
    if not known or not shown or not shown.get("code") or "code" in known:
        return told
    if any(known.get(name) != shown.get(name) for name in ("file", "line", "function")):
        return told
    where = {**known, "code": shown["code"]}
    return {**told, "where": where, "raised_at": printed.get("raised_at", told.get("raised_at"))}


def _where_a_worker_raised(
    told: dict[str, Any], from_text: Sequence[Observation]
) -> dict[str, Any]:
    """A pool raises the exception of a worker once more: the worker's traceback has the place.

    concurrent.futures, multiprocessing and joblib print it before their own, in quotes.
    """
    for o in from_text:
        if o.kind != "traceback" or not o.data.get("is_chained") or not o.data.get("where"):
            continue
        said = f"{o.data.get('full_type')}: {o.data.get('message', '')}"
        if _FORWARDED.search(said) and _FORWARDED.sub("", said) == told.get("exception_text"):
            where = {**o.data["where"], "process": "a worker process"}
            return {**told, "where": where, "raised_at": o.data.get("raised_at")}
    return told


def _missing(run: RecordedRun, what: str, why: str) -> Observation:
    return Observation(
        "missing",
        sentence(f"the record lacks {what}: {why}"),
        f"exit:{run.info.root_pid or 0}",
        {"what": what, "why": why},
    )


def _past_ends(history: Sequence[RunFolder], deadline: Deadline) -> list[PastEnd]:
    """Oldest first. A past run that cannot be read is no reason to be silent about this one."""
    runs = []
    for folder in history[:MOST_RUNS]:
        if deadline.skips("earlier runs"):
            break
        try:
            runs.append(read_material(folder, is_past=True))
        except RerailError:
            continue
    runs.sort(key=lambda run: run.info.started_unix)
    return [past_end(run) for run in runs]
