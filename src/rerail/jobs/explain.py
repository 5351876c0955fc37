"""All nodes of a job, read together and answered as one.

In: the place of a job. Out: a `Diagnosis` whose headline names the node first, with `job`: every
node, how it stands, and the shift of its clock with what is not known about it. Promises: bounded
in time; of a large job the nodes that tell most are read; nothing is written into the place.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rerail.catalogue import Cause
from rerail.diagnosis import Diagnosis, diagnose, explain_run
from rerail.errors import RerailError, UnreadableInput
from rerail.evidence import RecordedRun, read_failed_first, read_material
from rerail.jobs import words
from rerail.jobs.clocks import JobClock, align, by_walls
from rerail.jobs.gathering import fetch, gather
from rerail.jobs.membership import seconds_to_time_limit
from rerail.jobs.merging import merged
from rerail.jobs.place import Place
from rerail.jobs.records import Member
from rerail.jobs.standing import Standing, missing_nodes, standings
from rerail.jobs.who_first import Failure, First, published, who_first
from rerail.platform.deadline import Deadline
from rerail.records import Evidence, Observation, Outcome
from rerail.store import RunFolder

SECONDS = 30.0
_MOST_READ = 24  # records: the earliest failures, and everybody of a small job
_OF_MEMORY = ("memory-near-limit", "oom-kill", "memory-growth")
_TIME_LIMIT_SECONDS = 90.0  # Slurm sends SIGTERM at the limit, and SIGKILL a little later
_ENDED_BY_OTHERS = ("SIGTERM", "SIGINT", "SIGHUP")


@dataclass(frozen=True)
class _Read:
    """A node whose record was read."""

    run: RecordedRun
    diagnosis: Diagnosis


def explain_job(place: Place) -> Diagnosis:
    deadline = Deadline(SECONDS)
    members, unread = gather(place, deadline)
    if not members and unread:
        raise UnreadableInput(
            f"none of the {unread} nodes in {place.shown} could be read within {SECONDS:.0f} s",
            "Copy the place here and explain the copy, or try again.",
        )
    if not members:
        raise UnreadableInput(
            f"{place.shown} holds no node of a job", "Each node runs: rerail run --job ID -- CMD"
        )
    with tempfile.TemporaryDirectory(prefix="rerail-job-") as folder:
        return _explain(place, members, unread, Path(folder), deadline)


def _explain(
    place: Place, members: list[Member], unread: int, scratch: Path, deadline: Deadline
) -> Diagnosis:
    clock = _with_everybody(align(members), members)
    stand = standings(members, clock)
    chosen = _most_telling(stand)
    fetched = {m.node: m for m in fetch(place, [s.member for s in chosen], scratch, deadline)}
    stand = [replace(s, member=fetched.get(s.name, s.member)) for s in stand]
    read: dict[str, _Read] = {}
    for each in stand:
        if each.name in fetched and each.member.folder and not deadline.skips(f"node {each.name}"):
            _read_record(each, read)
    came, expected, absent = missing_nodes(members, unread)
    failures = _failures(stand, read, clock, has_absent=expected > came)
    first = who_first(stand, failures, _behind(stand, read, clock), absent=max(0, expected - came))
    answer = _answer(first, stand, read, absent, expected)
    job = _document(place, stand, clock, first, expected)
    return replace(answer, job=job, incomplete=answer.incomplete or deadline.sentence, run=None)


def _with_everybody(clock: JobClock, members: Sequence[Member]) -> JobClock:
    """Nodes that exchanged no stamp are placed by the time of day, to a minute."""
    walls = by_walls(members)
    known = clock.shift(walls.reference)
    base = known.seconds if known is not None else 0.0
    shifts = {}
    for name, shift in walls.shifts.items():
        moved = replace(shift, lowest=shift.lowest + base, highest=shift.highest + base)
        shifts[name] = clock.shift(name) or moved
    return replace(clock, shifts=shifts)


def _most_telling(stand: Sequence[Standing]) -> list[Standing]:
    bad = [each for each in stand if each.state in ("failed", "vanished")]
    bad.sort(key=lambda each: (each.last_t is None, each.last_t or 0.0))
    others = [each for each in stand if each.state not in ("failed", "vanished")]
    return [*bad, *others][:_MOST_READ]


def _read_record(standing: Standing, read: dict[str, _Read]) -> None:
    assert standing.member.folder is not None
    folder = RunFolder(standing.member.folder)
    try:
        read[standing.name] = _Read(read_material(folder), explain_run(folder))
    except (RerailError, OSError):
        return  # half a copy, or another user's: its signs of life are all that there is


def _failures(
    stand: Sequence[Standing], read: dict[str, _Read], clock: JobClock, *, has_absent: bool
) -> dict[str, Failure]:
    found = {}
    for each in stand:
        if each.state != "failed":
            continue
        known = read.get(each.name)
        t = clock.at(each.name, _failed_t(each.member, known.run if known else None))
        shift = each.shift
        leading = known.diagnosis.leading if known else None
        is_echo = leading is None or _is_echo(leading.cause, has_absent=has_absent)
        found[each.name] = Failure(
            t or 0.0,
            shift.uncertainty if shift is not None else 0.0,
            is_echo,
            leading.id if leading else None,
        )
    return found


def _is_echo(cause: Cause, *, has_absent: bool) -> bool:
    """Whether it says that somebody else failed, or ended it; or did not come, if some did not."""
    policy = cause.policy
    waited = has_absent and policy.waits_for_others
    return policy.is_echo or policy.is_from_outside or waited


def _failed_t(member: Member, run: RecordedRun | None) -> float:
    """When the first process of the node ended badly on its own; else when all was over."""
    ends = [
        process.ended_t_seconds
        for process in (run.processes if run is not None else ())
        if process.ended_t_seconds is not None
        and process.role in ("rank", "main", "child", "multiprocessing")
        and (process.signal or process.exit_code)
        and process.signal not in _ENDED_BY_OTHERS
    ]
    return min(ends, default=member.ended_t or member.last_t or 0.0)


def _behind(stand: Sequence[Standing], read: dict[str, _Read], clock: JobClock) -> str | None:
    """The node of the rank that failed first by everybody's records together."""
    runs = [(name, known.run) for name, known in read.items() if clock.shift(name) is not None]
    if len(runs) < 2:
        return None
    together = merged([(run, clock.shifts[name].seconds) for name, run in runs])
    first = next(iter(read_failed_first(together)), None)
    rank = first.data.get("rank") if first is not None else None
    return next((s.name for s in stand if rank in s.member.rank_numbers), None)


def _answer(
    first: First | None,
    stand: Sequence[Standing],
    read: dict[str, _Read],
    absent: Sequence[int],
    expected: int,
) -> Diagnosis:
    if first is None:
        return _without_fault(stand)
    if first.is_failure:
        return _of_a_failure(first, stand, read)
    said = words.headline(first, stand, absent, expected)
    if first.how in ("left", "stuck"):
        return _of_one_waited_for(first, said, stand, read)
    lost = next((each for each in stand if each.name == first.who.name), None)
    kind = "lost-node" if lost is not None else "absent-node"
    name = first.who.name or None
    data: dict[str, Any] = {"node": name, "how": first.how, "t_seconds": first.t}
    facts: dict[str, Any] = {"failed_first": words.who(lost) if lost else "a node that never came"}
    if lost is not None:
        data["ranks"] = lost.member.rank_numbers
        facts["node"] = lost.name
        if lost.member.step:
            facts["last_step"] = lost.member.step
    observations = [Observation(kind, said, f"node:{name or 'absent'}", data)]
    known = read.get(first.who.name)
    if known is not None:  # what a container that was killed for memory leaves, with all in it
        observations += [o for o in known.diagnosis.observations if o.kind in _OF_MEMORY]
    evidence = Evidence(Outcome("unknown", said), observations, facts, origin="run")
    return replace(diagnose(evidence), headline_on_record=said)


def _of_one_waited_for(
    first: First, said: str, stand: Sequence[Standing], read: dict[str, _Read]
) -> Diagnosis:
    """The causes are its own, where its record shows any; else those of who waited."""
    own = next(each for each in stand if each.name == first.who.name)
    known = read.get(own.name)
    others = [read[each.name] for each in stand if each.state == "failed" and each.name in read]
    told = known.diagnosis if known is not None and known.diagnosis.causes else None
    base = told or next((each.diagnosis for each in others), Diagnosis(Outcome("unknown", said)))
    if told is not None and first.how == "stuck":
        said = f"{said} {told.headline}"
    facts = {**base.facts, "failed_first": words.who(own), "node": own.name}
    return replace(base, headline_on_record=said, facts=facts)


def _of_a_failure(first: First, stand: Sequence[Standing], read: dict[str, _Read]) -> Diagnosis:
    own = next(each for each in stand if each.name == first.who.name)
    known = read.get(own.name)
    others = [each for each in stand if each.state == "failed" and each is not own]
    echo = f" {_echoes(others)}" if others else ""
    doubt = "" if first.is_certain else " (within what is not known about the clocks)"
    if known is None:
        said = f"{_capital(words.who(own))} failed first{doubt}: {own.member.outcome_summary}{echo}"
        return Diagnosis(Outcome("exit", said), headline_on_record=said)
    said = f"{_capital(words.who(own))}{doubt}: {known.diagnosis.headline}{echo}"
    if others and all(_was_ended(read.get(each.name)) for each in (own, *others)):
        said = f"All {len(others) + 1} nodes were ended: {known.diagnosis.headline}"
    said += _of_time_limit(own, known.diagnosis)
    facts = {**known.diagnosis.facts, "failed_first": words.who(own), "node": own.name}
    return replace(known.diagnosis, headline_on_record=said, facts=facts)


def _was_ended(known: _Read | None) -> bool:
    """By a scheduler or a person: then nobody failed first."""
    leading = known.diagnosis.leading if known is not None else None
    return leading is not None and leading.cause.policy.is_from_outside


def _of_time_limit(own: Standing, diagnosis: Diagnosis) -> str:
    """A run that was ended from outside when its time was over: Slurm says when that is."""
    leading = diagnosis.leading
    if leading is None or not leading.cause.policy.is_from_outside:
        return ""
    left = seconds_to_time_limit(own.member.told, own.member.last_unix)
    near = left is not None and abs(left) < _TIME_LIMIT_SECONDS
    return " That was Slurm's time limit." if near else ""


def _echoes(others: Sequence[Standing]) -> str:
    ranks = sorted({rank for each in others for rank in each.member.rank_numbers})
    return f"{_capital(words.ranks_in_words(ranks)) if ranks else 'The others'} failed after it."


def _without_fault(stand: Sequence[Standing]) -> Diagnosis:
    running = [each.name for each in stand if each.state == "running"]
    if running:
        said = f"{len(running)} of {len(stand)} nodes are running."
        return Diagnosis(Outcome("unknown", said), headline_on_record=said)
    said = f"All {len(stand)} nodes ended well." if len(stand) > 1 else "The one node ended well."
    return Diagnosis(Outcome("ok", said), headline_on_record=said)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _document(
    place: Place,
    stand: Sequence[Standing],
    clock: JobClock,
    first: First | None,
    expected: int,
) -> dict[str, Any]:
    nodes = [_node(each) for each in stand]
    document: dict[str, Any] = {
        "place": place.shown,
        "expected_nodes": expected or None,
        "clock": {"node": clock.reference, "uses_steps": clock.uses_steps},
        "nodes": nodes,
    }
    if first is not None:
        name, how = first.who.name or None, published(first)
        document["first"] = {"node": name, "how": how, "t_seconds": _rounded(first.t)}
    return document


def _node(each: Standing) -> dict[str, Any]:
    member, shift = each.member, each.shift
    return {
        "node": each.name,
        "host": member.host,
        "node_rank": member.node_rank,
        "ranks": member.rank_numbers,
        "run": member.run,
        "attempt": member.attempt,
        "state": each.state,
        "outcome": member.outcome_summary or None,
        "step": member.step,
        "last_seen_seconds": _rounded(each.last_t),
        "offset_seconds": _rounded(shift.seconds) if shift else None,
        "offset_uncertainty_seconds": _rounded(shift.uncertainty) if shift else None,
        "clock_ahead_seconds": _rounded(each.wall_seconds),
        "lost_link": each.lost_link.interface if each.lost_link else None,
        "lost_link_seconds": _rounded(each.lost_link_t),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
