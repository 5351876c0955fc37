"""The diagnosis as data, and as the contract's JSON document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rerail.catalogue import Cause
from rerail.records import Observation, Outcome

SCHEMA = 1


@dataclass(frozen=True)
class Candidate:
    cause: Cause
    probability: float
    speaks_for: tuple[Observation, ...] = ()
    speaks_against: tuple[Observation, ...] = ()


@dataclass(frozen=True)
class NextStep:
    text: str
    command: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    outcome: Outcome
    candidates: tuple[Candidate, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    next_step: NextStep | None = None
    observations: tuple[Observation, ...] = ()  # all of them, for reports; not in the JSON
    incomplete: str = ""  # what was not looked at, when the time for the answer was over

    @property
    def leading(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None

    def to_json(self) -> dict[str, Any]:
        """The document of the contract; `next` is absent when there is nothing to tell apart."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "outcome": {
                "kind": self.outcome.kind,
                "signal": self.outcome.signal,
                "exit_code": self.outcome.exit_code,
                "process": self.outcome.process,
                "summary": self.outcome.summary,
            },
            "causes": [_candidate(candidate) for candidate in self.candidates],
            "facts": self.facts,
        }
        if self.incomplete:
            document["incomplete"] = self.incomplete
        if self.next_step:
            document["next"] = {"text": self.next_step.text}
            if self.next_step.command:
                document["next"]["command"] = self.next_step.command
        return document


def _candidate(candidate: Candidate) -> dict[str, Any]:
    cause = candidate.cause
    return {
        "id": cause.id,
        "probability": round(candidate.probability, 3),
        "title": cause.title,
        "for": [{"text": o.text, "source": o.source} for o in candidate.speaks_for],
        "against": [{"text": o.text, "source": o.source} for o in candidate.speaks_against],
        "remedies": [
            {
                "id": remedy.id,
                "title": remedy.title,
                "safety": remedy.safety,
                "change": list(remedy.change),
                **({"note": remedy.note} if remedy.note else {}),
            }
            for remedy in cause.remedies
        ],
    }
