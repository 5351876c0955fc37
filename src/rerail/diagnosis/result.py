"""The diagnosis as data, as the contract's JSON document, and as a notebook shows it.

`rerail.explain` gives it to Python users: what has no leading underscore here is public interface.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rerail.catalogue import Cause, Remedy
from rerail.records import Observation, Outcome
from rerail.wording import percent

if TYPE_CHECKING:
    from rerail.diagnosis.second_opinion import SecondOpinion
    from rerail.diagnosis.why_not import WhyNot

SCHEMA = 1


@dataclass(frozen=True)
class Candidate:
    """A cause that may have been it, with what was observed for and against it."""

    cause: Cause
    probability: float  # as it is written into the document, so that every reader says the same
    speaks_for: tuple[Observation, ...] = ()
    speaks_against: tuple[Observation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "probability", round(self.probability, 3))

    @property
    def id(self) -> str:
        return self.cause.id

    @property
    def title(self) -> str:
        return self.cause.title

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        return self.cause.remedies

    def __repr__(self) -> str:
        return f"Candidate({self.id!r}, {self.probability:.3f})"


@dataclass(frozen=True)
class NextStep:
    text: str
    command: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Why it died: how it ended, the causes with their probabilities, and what was observed."""

    outcome: Outcome
    candidates: tuple[Candidate, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    next_step: NextStep | None = None
    observations: tuple[Observation, ...] = ()  # all of them, for reports; not in the JSON
    incomplete: str = ""  # what was not looked at, when the time for the answer was over
    skipped: tuple[tuple[str, str], ...] = ()  # files that were no logs: name, why
    run: str | None = None  # the id of the recorded run; None for logs
    headline_on_record: str = ""  # as it was said then, of a diagnosis that was read back
    second_opinion: SecondOpinion | None = None  # of a model, only if one was asked
    job: dict[str, Any] | None = None  # the nodes of a job, where several machines were read

    @cached_property
    def headline(self) -> str:
        """The one sentence that stands first."""
        from rerail.diagnosis.headline import headline

        return self.headline_on_record or headline(self)

    @property
    def causes(self) -> tuple[Candidate, ...]:
        """The most probable first; empty for a healthy run."""
        return self.candidates

    @property
    def leading(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None

    def why_not(self, cause_id: str) -> WhyNot:
        """What speaks against this cause, and what of it was looked for and not seen."""
        from rerail.diagnosis.why_not import why_not

        return why_not(self, cause_id)

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
            "headline": self.headline,
            "facts": self.facts,
        }
        if self.incomplete:
            document["incomplete"] = self.incomplete
        if self.skipped:
            document["skipped"] = [{"name": name, "why": why} for name, why in self.skipped]
        if self.next_step:
            document["next"] = {"text": self.next_step.text}
            if self.next_step.command:
                document["next"]["command"] = self.next_step.command
        if self.run is not None:
            document["run"] = self.run
        if self.second_opinion is not None:
            document["second_opinion"] = self.second_opinion.to_json()
        if self.job is not None:
            document["job"] = self.job
        return document

    def __str__(self) -> str:
        return self.headline

    def __repr__(self) -> str:
        return f"Diagnosis({self.outcome.kind!r}, causes={list(self.causes)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, and the causes with their first reason."""
        from html import escape

        rows = "".join(
            f"<tr><td>{percent(each.probability)}</td><td>{escape(each.id)}</td>"
            f"<td>{escape(each.title)}</td>"
            f"<td>{escape(each.speaks_for[0].text[:300]) if each.speaks_for else ''}</td></tr>"
            for each in self.causes
        )
        table = f"<table>{rows}</table>" if rows else ""
        return f"<p><b>{escape(self.headline)}</b></p>{table}"


def _candidate(candidate: Candidate) -> dict[str, Any]:
    cause = candidate.cause
    return {
        "id": cause.id,
        "probability": candidate.probability,
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
