"""What Ray's own logs said of the worker that was recorded (docs/ray.md).

In: a recorded run with an event `ray`. Out: an `oom-kill` where Ray's memory monitor killed it, an
`ended-by-ray` where Ray or the program asked it to go, the outcome where Ray's process ended with 0
although the actor failed, and what the worker printed, which Ray keeps in a file of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.settle import OF_AN_EXCEPTION, Claim
from rerail.evidence.text.logs import observe_text
from rerail.evidence.text.observing import TextEvidence
from rerail.platform.deadline import Deadline
from rerail.platform.patterns import linear
from rerail.records import Observation, Outcome
from rerail.wording import process_in_words, sentence

LABEL = "worker.err"  # the name of what Ray keeps, as a source
_EXIT_CODE = linear(r"exit code (\d{1,3})\b")
_FAILURES = ("USER_ERROR", "SYSTEM_ERROR")


def ray_event(run: RecordedRun) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in run.events_of("ray"):
        found = event.data
    return found


def read_ray(run: RecordedRun) -> list[Observation]:
    told = ray_event(run)
    main = run.main
    if not told or main is None:
        return []
    who, source = process_in_words(main), f"exit:{main.pid}"
    data = {"pid": main.pid, "role": main.role, "rank": main.rank, "actor": told.get("actor")}
    if memory := told.get("memory"):
        none = dict.fromkeys(("limit_bytes", "peak_bytes", "cgroup"))
        text = sentence(f"Ray's memory monitor killed {who}: {memory}")
        return [Observation("oom-kill", text, source, {**none, **data, "count": 1, "scope": "ray"})]
    kind = str(told.get("exit_type") or "")
    if kind.startswith("INTENDED"):
        text = sentence(f"Ray ended {who}: {told.get('exit_detail') or kind}")
        return [Observation("ended-by-ray", text, source, {**data, "exit_type": kind})]
    return []


def ray_facts(run: RecordedRun) -> dict[str, Any]:
    told, main = ray_event(run), run.main
    if not told or main is None:
        return {}
    who = process_in_words(main)
    facts = {"ray_actor": told.get("actor"), "ray_memory": told.get("memory")}
    if facts["ray_memory"]:
        facts["ray_victim"] = who
    elif str(told.get("exit_type") or "").startswith("INTENDED"):
        detail = str(told.get("exit_detail") or "it was not needed any more")
        facts["ray_ended"] = f"{who}: {detail.rpartition('. ')[2].rstrip('.') or detail}"
    return {name: value for name, value in facts.items() if value}


def outcome_by_ray(run: RecordedRun) -> Outcome | None:
    """With the worker's name; a failure of an actor whose process exited 0, as Ray has it do."""
    told, recorded, main = ray_event(run), run.info.outcome, run.main
    if "ray" not in run.info.settings or recorded is None or main is None:
        return None
    if recorded.kind != "ok" or told.get("exit_type") not in _FAILURES:
        named = recorded.summary.replace("the command", process_in_words(main), 1)
        return replace(recorded, summary=named)
    detail = str(told.get("exit_detail") or "")
    code = _EXIT_CODE.search(detail)
    actor = f"the actor {told['actor']}" if told.get("actor") else "the worker"
    text = f"{actor} ended with exit code {code[1]}" if code else f"{actor} failed: {detail}"
    first = text.partition(". ")[0]
    return Outcome("exit", sentence(first), exit_code=int(code[1]) if code else 1, process="main")


def with_ray_words(run: RecordedRun, printed: TextEvidence, deadline: Deadline) -> TextEvidence:
    """The worker's own output, which went to Ray's file."""
    lines = ray_event(run).get("said") or []
    if not lines or deadline.skips("what Ray kept of the output"):
        return printed
    told = observe_text(list(enumerate(lines, 1)), deadline, label=LABEL)
    said = {name: told.facts[name] for name in OF_AN_EXCEPTION if name in told.facts}
    return replace(
        printed,
        observations=[*printed.observations, *told.observations],
        claims=[*printed.claims, Claim("own-file", said)],
    )
