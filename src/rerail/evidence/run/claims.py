"""What every source claims of one recorded run, for `settle`.

In: a recorded run, its observations and what its output shows. Out: the facts of the run, settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.run.chains import (
    read_chain,
    read_swallowed,
    read_thread_before,
    read_worker_of_a_pool,
)
from rerail.evidence.run.disks import full_mount_facts
from rerail.evidence.run.exit_calls import exit_of_a_lost_worker, exit_of_the_program
from rerail.evidence.run.facts import read_facts
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.progress import read_how_far
from rerail.evidence.settle import Claim, settle, without, without_contradictions
from rerail.evidence.text.observing import TextEvidence
from rerail.records import Observation

_PROGRESS = ("last_step", "total", "epoch", "loss")  # settled once: `store.progress`


def facts_of_run(
    run: RecordedRun,
    observations: Sequence[Observation],
    raised: Sequence[Claim],
    text: TextEvidence,
) -> dict[str, Any]:
    """`raised`: what the processes' own hooks saw of the exception that ended the run."""
    first = next((str(o.data.get("who")) for o in observations if o.kind == "failed-first"), None)
    uncaught = settle(raised)
    of_exception = [
        *raised,
        *read_thread_before(run, uncaught, text.observations),
        *read_chain(uncaught, text.observations),
        *read_swallowed(uncaught, text.observations),
        *read_worker_of_a_pool(uncaught, text.observations),
    ]
    printed = [Claim("output", without(text.facts, _PROGRESS)), *text.claims]
    claims = [
        *read_facts(run, observations),
        *of_exception,
        *exit_of_a_lost_worker(run, str(uncaught.get("exception_text") or "")),
        *printed,
        *exit_of_the_program(run),
    ]
    claims += _waited_for(settle([*of_exception, *printed]), observations)
    facts = settle(claims, first)
    how_far = read_how_far(run, facts.get("where") or {}, observations)
    facts = without_contradictions(settle([Claim("measured", {**facts, **how_far})]))
    said = str(facts.get("exception_text") or "")
    if full := full_mount_facts(run, said, str(facts.get("file_in_hand") or "")):
        # A full file system was measured; that a limit was hit is only concluded from the words.
        facts.pop("file_size_limit_bytes", None)
        facts.update(full)
    return facts


def _waited_for(raised: dict[str, Any], observations: Sequence[Observation]) -> list[Claim]:
    """Where a worker or a thread raised, of a run that then hung because that one was gone."""
    where = raised.get("where") or {}
    lost = [o.data["lost"] for o in observations if o.kind == "stall" and o.data.get("lost")]
    of = str(where.get("process"))
    is_of_one = any(one.get("thread") or f"(pid {one['pid']})" in of for one in lost)
    return [Claim("waited-for", {"where": where})] if where and is_of_one else []
