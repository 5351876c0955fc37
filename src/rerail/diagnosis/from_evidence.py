"""Evidence and the catalogue become ranked causes with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rerail.catalogue import Catalogue, Cause, load_catalogue
from rerail.diagnosis.conditions import fits
from rerail.diagnosis.next_step import next_step
from rerail.diagnosis.rank import rank
from rerail.diagnosis.result import Candidate, Diagnosis
from rerail.diagnosis.weigh import Item, weigh
from rerail.records import Evidence, Observation

MOST_CANDIDATES = 6
MOST_REASONS = 6


def diagnose(
    evidence: Evidence, catalogue: Catalogue | None = None, command: Sequence[str] = ()
) -> Diagnosis:
    """Why it died; no candidates when nothing says that it did."""
    cases = weigh(evidence, catalogue or load_catalogue())
    candidates = tuple(
        Candidate(
            _fitting(case.cause, evidence),
            probability,
            _reasons(case.speaks_for),
            _reasons(case.speaks_against),
        )
        for case, probability in rank(cases)[:MOST_CANDIDATES]
    )
    return Diagnosis(
        outcome=evidence.outcome,
        candidates=candidates,
        facts=_facts(evidence),
        next_step=next_step(candidates, command),
        observations=tuple(evidence.observations),
        incomplete=evidence.incomplete,
    )


def _fitting(cause: Cause, evidence: Evidence) -> Cause:
    """The cause without remedies and experiments for what this run is known not to have.

    Of a log, or of a run without the agent's black box, too little is known for that.
    """
    if evidence.origin != "run" or "optimizer_steps" not in evidence.facts:
        return cause
    return replace(
        cause,
        remedies=tuple(each for each in cause.remedies if fits(evidence.facts, each.when)),
        experiments=tuple(each for each in cause.experiments if fits(evidence.facts, each.when)),
    )


def _facts(evidence: Evidence) -> dict[str, Any]:
    """The evidence's facts, and what earlier runs of the same command did, in a sentence."""
    history = next((o.text for o in evidence.observations if o.kind == "history"), None)
    return {**evidence.facts, **({"history": history} if history else {})}


def _reasons(items: list[Item]) -> tuple[Observation, ...]:
    """The observations, heaviest first, each place once."""
    seen: dict[str, Observation] = {}
    for item in items:
        seen.setdefault(item.observation.source, item.observation)
    return tuple(seen.values())[:MOST_REASONS]
