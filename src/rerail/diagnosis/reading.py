"""A diagnosis read back from the contract's JSON document.

In: a document of `explain --json`, of this rerail or of another one. Out: `Diagnosis`, saying what
the document says: what the catalogue has learnt since is not mixed in. A cause keeps the id, title
and remedies of the document; its mechanism is the catalogue's, where the catalogue still knows it.
DecodeError for what is no such document.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rerail.bounded import Share
from rerail.catalogue import Cause, Policy, Remedy, load_catalogue
from rerail.diagnosis.result import SCHEMA, Candidate, Diagnosis, NextStep
from rerail.records import Observation, Outcome
from rerail.store import DecodeError, decode


@dataclass(frozen=True)
class _Cited:
    """The document keeps the words and the place of an observation, not its kind."""

    text: str
    source: str


@dataclass(frozen=True)
class _Cause:
    id: str
    probability: Share
    title: str
    for_: tuple[_Cited, ...] = ()
    against: tuple[_Cited, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class _Skipped:
    name: str
    why: str


@dataclass(frozen=True)
class _Document:
    outcome: Outcome
    causes: tuple[_Cause, ...]
    headline: str = ""  # an older rerail wrote none
    facts: dict[str, Any] = field(default_factory=dict)
    next: NextStep | None = None
    incomplete: str = ""
    skipped: tuple[_Skipped, ...] = ()
    run: str | None = None
    job: dict[str, Any] | None = None


def read_document(value: dict[str, Any]) -> Diagnosis:
    if value.get("schema") != SCHEMA:
        raise DecodeError(f"schema {value.get('schema')!r} is not {SCHEMA}")
    document = decode(_Document, value, "diagnosis")
    title = document.causes[0].title if document.causes else ""
    return Diagnosis(
        outcome=document.outcome,
        candidates=tuple(_candidate(cause) for cause in document.causes),
        facts=document.facts,
        next_step=document.next,
        incomplete=document.incomplete,
        skipped=tuple((each.name, each.why) for each in document.skipped),
        run=document.run,
        headline_on_record=document.headline or title,
        job=document.job,
    )


def _candidate(told: _Cause) -> Candidate:
    catalogue = load_catalogue()
    known = catalogue[told.id] if told.id in catalogue else _stranger(told.id, told.title)
    return Candidate(
        replace(known, title=told.title, remedies=told.remedies),
        told.probability,
        _observations(told.for_),
        _observations(told.against),
    )


def _stranger(cause_id: str, title: str) -> Cause:
    """A cause that another rerail knows: nothing is done about it without asking."""
    return Cause(cause_id, title, "", "", "", policy=Policy(retry="with-remedy"))


def _observations(cited: tuple[_Cited, ...]) -> tuple[Observation, ...]:
    return tuple(Observation("", each.text, each.source) for each in cited)
