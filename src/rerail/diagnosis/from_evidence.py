"""Evidence and the catalogue become ranked causes with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.catalogue import Catalogue, load_catalogue
from rerail.diagnosis.fitting import fitted
from rerail.diagnosis.next_step import next_step
from rerail.diagnosis.rank import rank
from rerail.diagnosis.result import Candidate, Diagnosis
from rerail.diagnosis.weigh import Item, weigh
from rerail.diagnosis.words import words_of
from rerail.records import Evidence, Observation

MOST_CANDIDATES = 6
MOST_REASONS = 6


def diagnose(
    evidence: Evidence, catalogue: Catalogue | None = None, command: Sequence[str] = ()
) -> Diagnosis:
    """Why it died; no candidates when nothing says that it did."""
    # What rerail itself ended, as it was asked to, died of nothing.
    was_stopped = "stopped_by_gate" in evidence.facts
    catalogue = catalogue or load_catalogue()
    cases = {} if was_stopped else weigh(evidence, catalogue)
    facts = _facts(evidence)
    observed = tuple(evidence.observations)
    words = words_of(Diagnosis(evidence.outcome, (), facts, observations=observed))
    candidates = tuple(
        Candidate(
            fitted(case.cause, facts, words, catalogue.fixes),
            probability,
            _reasons(case.speaks_for),
            _reasons(case.speaks_against),
        )
        for case, probability in rank(cases)[:MOST_CANDIDATES]
    )
    return Diagnosis(
        outcome=evidence.outcome,
        candidates=candidates,
        facts=facts,
        next_step=next_step(candidates, command),
        observations=observed,
        incomplete=evidence.incomplete,
    )


def _facts(evidence: Evidence) -> dict[str, Any]:
    """The evidence's facts, and what earlier runs of the same command did, in a sentence."""
    history = next((o for o in evidence.observations if o.kind == "history"), None)
    if history is None:
        return evidence.facts
    return {**evidence.facts, "history": history.text, "recorded_runs": history.data["runs"]}


def _reasons(items: list[Item]) -> tuple[Observation, ...]:
    """The observations, heaviest first, each place once."""
    seen: dict[str, Observation] = {}
    for item in items:
        seen.setdefault(item.observation.source, item.observation)
    return tuple(seen.values())[:MOST_REASONS]
