"""A diagnosis read back from the contract's JSON document.

In: a document of `explain --json`, of this rerail or of another one. Out: `Diagnosis`, saying what
the document says: what the catalogue has learnt since is not mixed in. A cause keeps the id, title
and remedies of the document; its mechanism is the catalogue's, where the catalogue still knows it.
DecodeError for what is no such document.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rerail.catalogue import Cause, Policy, Remedy, load_catalogue
from rerail.diagnosis.result import SCHEMA, Candidate, Diagnosis, NextStep
from rerail.records import Observation, Outcome
from rerail.store import DecodeError


def read_document(document: dict[str, Any]) -> Diagnosis:
    if document.get("schema") != SCHEMA:
        raise DecodeError(f"schema {document.get('schema')!r} is not {SCHEMA}")
    try:
        return _diagnosis(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DecodeError(f"not a diagnosis: {type(error).__name__}: {error}") from None


def _diagnosis(document: dict[str, Any]) -> Diagnosis:
    outcome, step = document["outcome"], document.get("next")
    return Diagnosis(
        outcome=Outcome(
            outcome["kind"],
            str(outcome["summary"]),
            outcome.get("signal"),
            outcome.get("exit_code"),
            outcome.get("process"),
        ),
        candidates=tuple(_candidate(value) for value in document["causes"]),
        facts=dict(document.get("facts") or {}),
        next_step=NextStep(str(step["text"]), step.get("command")) if step else None,
        incomplete=str(document.get("incomplete") or ""),
        headline_on_record=str(document.get("headline") or ""),
    )


def _candidate(value: dict[str, Any]) -> Candidate:
    catalogue = load_catalogue()
    cause_id, title = str(value["id"]), str(value["title"])
    known = catalogue[cause_id] if cause_id in catalogue else _stranger(cause_id, title)
    return Candidate(
        replace(known, title=title, remedies=tuple(_remedy(each) for each in value["remedies"])),
        float(value["probability"]),
        tuple(_observation(each) for each in value["for"]),
        tuple(_observation(each) for each in value["against"]),
    )


def _stranger(cause_id: str, title: str) -> Cause:
    """A cause that another rerail knows: nothing is done about it without asking."""
    return Cause(cause_id, title, "", "", "", policy=Policy(retry="with-remedy"))


def _remedy(value: dict[str, Any]) -> Remedy:
    return Remedy(
        str(value["id"]),
        str(value["title"]),
        value["safety"],
        tuple(str(word) for word in value["change"]),
        str(value.get("note", "")),
    )


def _observation(value: dict[str, Any]) -> Observation:
    """The document keeps the words and the place of an observation, not its kind."""
    return Observation("", str(value["text"]), str(value["source"]))
