"""Turns the table of one cause file into a Cause, and says what is wrong with it.

`complaints(table)` lists everything that the file lacks or misspells, each naming the key;
`cause_from(table)` expects a table without complaints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from rerail.catalogue.literals import spaced
from rerail.catalogue.model import (
    SAFETY_ORDER,
    Cause,
    Experiment,
    HazardKnob,
    Policy,
    Remedy,
    Retry,
    Sign,
    Signature,
    Where,
)
from rerail.catalogue.templates import gaps
from rerail.platform.patterns import linear
from rerail.platform.wordings import complaint_of_alternatives, whole_pattern

FAMILIES = {
    "memory": "Memory and operating-system limits",
    "native": "Native libraries",
    "gpu": "GPU",
    "data": "Data loading",
    "distributed": "Distributed",
    "numerics": "Numerics",
    "files": "Checkpoints and files",
    "program": "The program",
    "outside": "From outside",
}

_TOP: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "title": str,
    "headline": list,
    "family": str,
    "what_happened": str,
    "mechanism": str,
    "prior": (int, float),
    "is_residual": bool,
    "outranks": list,
    "policy": dict,
    "signature": list,
    "sign": list,
    "experiment": list,
    "remedy": list,
    "matches": list,
    "near_misses": list,
    "references": list,
}
_REQUIRED = (
    *("id", "title", "headline", "family", "what_happened", "mechanism", "policy", "remedy"),
    "matches",
)
_SIGNATURE = {
    *("name", "pattern", "weight", "where", "group", "unless", "unless_through", "but_not"),
    *("same", "differ", "even_if_resumed", "facts", "any", "matches"),
}
_SIGN = {"name", "observation", "weight", "when", "group", "even_if_resumed"}
_EXPERIMENT = {"change", "expect", "when"}
_REMEDY = {"id", "title", "safety", "change", "note", "by_hand", "when", "finds"}
_POLICY = {each.name for each in fields(Policy)}
_POLICY_LISTS = {"same_damage_as", "raised_by"}


def complaints(table: dict[str, Any], name: str) -> list[str]:
    """What is wrong with the table of the file `name` (its stem); empty when nothing is."""
    found = [f"{key}: missing" for key in _REQUIRED if not table.get(key)]
    for key, value in table.items():
        if key not in _TOP:
            found.append(f"{key}: unknown key")
        elif not isinstance(value, _TOP[key]):
            found.append(f"{key}: wrong type {type(value).__name__}")
    if found:
        return found
    if table["id"] != name:
        found.append(f"id: {table['id']} is not the file's name")
    if table["family"] not in FAMILIES:
        found.append(f"family: {table['family']} is not one of {', '.join(FAMILIES)}")
    if lacking := gaps(str(table["headline"][-1])) - {"at"}:
        found.append(f"headline: the last one must need no fact, and needs {', '.join(lacking)}")
    if not table.get("signature") and not table.get("sign"):
        found.append("signature, sign: nothing would ever be seen of this cause")
    found += _signature_complaints(table.get("signature", []))
    for at, sign in enumerate(table.get("sign", [])):
        found += _keys(f"sign[{at}]", sign, _SIGN, {"name", "observation", "weight"})
    for at, experiment in enumerate(table.get("experiment", [])):
        found += _keys(f"experiment[{at}]", experiment, _EXPERIMENT, {"change", "expect"})
    return found + _policy_complaints(table["policy"]) + _remedy_complaints(table["remedy"])


def _keys(where: str, entry: dict[str, Any], known: set[str], required: set[str]) -> list[str]:
    return [f"{where}: unknown key {key}" for key in entry if key not in known] + [
        f"{where}: {key} missing" for key in sorted(required) if key not in entry
    ]


def _signature_complaints(signatures: list[dict[str, Any]]) -> list[str]:
    found = []
    seen: set[str] = set()
    for at, signature in enumerate(signatures):
        here = f"signature[{at}]"
        found += _keys(here, signature, _SIGNATURE, {"name", "weight"})
        if wrong := complaint_of_alternatives(signature):
            found.append(f"{here}: {wrong}")
        signature = with_whole_patterns(signature)
        if signature.get("name") in seen:
            found.append(f"{here}: name {signature['name']} is used twice")
        seen.add(signature.get("name", ""))
        if signature.get("where", "line") not in get_args(Where):
            found.append(f"{here}: where = {signature['where']}")
        for key in ("pattern", "unless", "unless_through", "but_not"):
            text = signature.get(key, "")
            try:
                pattern = linear(spaced(text))
                pattern.compile()
            except re.error as error:
                found.append(f"{here}: {key}: {error}")
                continue
            if text and pattern.match(""):
                found.append(f"{here}: {key}: it matches a text without a letter")
    return found


def with_whole_patterns(signature: Mapping[str, Any]) -> dict[str, Any]:
    """The signature as it is matched: lists of alternatives joined, without its examples."""
    whole = {key: value for key, value in signature.items() if key not in ("any", "matches")}
    whole["pattern"] = whole_pattern(signature)
    if isinstance(whole.get("unless"), list):
        whole["unless"] = "|".join(whole["unless"])
    return whole


def _policy_complaints(policy: dict[str, Any]) -> list[str]:
    found = _keys("policy", policy, _POLICY, {"retry"})
    retry = policy.get("retry", "unchanged")
    if retry not in get_args(Retry):
        found.append(f"policy: retry = {retry!r} is not one of {', '.join(get_args(Retry))}")
    for key, value in policy.items():
        if key in _POLICY_LISTS:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                found.append(f"policy: {key} is not a list of words")
            elif key == "raised_by" and (unknown := set(value) - set(get_args(HazardKnob))):
                known = ", ".join(get_args(HazardKnob))
                found.append(f"policy: raised_by {', '.join(sorted(unknown))}: there is {known}")
        elif key in _POLICY - {"retry"} and not isinstance(value, bool):
            found.append(f"policy: {key} is neither true nor false")
    if policy.get("is_certain") and retry != "with-remedy":
        found.append("policy: what is certain to come back is retried with-remedy only")
    return found


def _remedy_complaints(remedies: list[dict[str, Any]]) -> list[str]:
    found = []
    order = []
    for at, remedy in enumerate(remedies):
        found += _keys(f"remedy[{at}]", remedy, _REMEDY, {"id", "title", "safety"})
        safety = remedy.get("safety", "")
        if safety not in SAFETY_ORDER:
            found.append(f"remedy[{at}]: safety = {safety!r}")
        order.append((bool(remedy.get("finds")), SAFETY_ORDER.get(safety, 9)))
    if order != sorted(order):
        found.append("remedy: safe ones come first, those that hide the cause and `finds` last")
    return found


def cause_from(table: dict[str, Any]) -> Cause:
    return Cause(
        id=table["id"],
        title=table["title"],
        family=table["family"],
        what_happened=table["what_happened"].strip(),
        mechanism=table["mechanism"].strip(),
        headline=tuple(table["headline"]),
        policy=Policy(**{key: _frozen(value) for key, value in table["policy"].items()}),
        prior=float(table.get("prior", 0.0)),
        is_residual=table.get("is_residual", False),
        outranks=tuple(table.get("outranks", ())),
        signatures=tuple(
            Signature(**{key: _frozen(value) for key, value in entry.items()})
            for entry in table.get("signature", ())
        ),
        signs=tuple(Sign(**entry) for entry in table.get("sign", ())),
        experiments=tuple(
            Experiment(tuple(entry["change"]), entry["expect"], entry.get("when", {}))
            for entry in table.get("experiment", ())
        ),
        remedies=tuple(
            Remedy(
                entry["id"],
                entry["title"],
                entry["safety"],
                tuple(entry.get("change", ())),
                entry.get("note", ""),
                entry.get("by_hand", ""),
                entry.get("when", {}),
                entry.get("finds", False),
            )
            for entry in table["remedy"]
        ),
        matches=tuple(entry.strip("\n") for entry in table["matches"]),
        near_misses=tuple(entry.strip("\n") for entry in table.get("near_misses", ())),
        references=tuple(table.get("references", ())),
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
