"""Symptoms in every dialect, and what each is the symptom of, by where it was seen.

In: the tables of symptoms/*.toml and of what_where.toml. Out: `Symptom`s, and signs that are added
to the causes which the table names. FaultyCause for a row or a file that makes no sense.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rerail.catalogue.literals import required_literals, spaced
from rerail.catalogue.model import Sign, Signature, Symptom
from rerail.catalogue.schema import with_whole_patterns
from rerail.errors import FaultyCause
from rerail.platform.wordings import complaint_of_alternatives

IS_WEIGHT = 3.4
IS_NOT_WEIGHT = -2.5
_WORDING = {"dialect", "pattern", "any", "where", "unless", "matches"}


def symptom_from(table: Mapping[str, Any]) -> Symptom:
    return Symptom(
        table["id"],
        table["what"],
        tuple(
            Signature(
                name=each["dialect"],
                pattern=each["pattern"],
                weight=1.0,
                where=each.get("where", "line"),
                unless=each.get("unless", ""),
                literals=tuple(each["literals"]),
            )
            for each in table["wording"]
        ),
    )


def checked_symptom(table: dict[str, Any], name: str) -> dict[str, Any]:
    """The table of symptoms/NAME.toml with its required words worked out."""
    wordings = table.get("wording")
    if table.get("id") != name or not table.get("what") or not wordings:
        raise FaultyCause(f"symptoms/{name}.toml: it needs id = {name!r}, what, and a wording")
    for wording in wordings:
        if set(wording) - _WORDING or "dialect" not in wording:
            raise FaultyCause(f"symptoms/{name}.toml: a wording has {', '.join(sorted(_WORDING))}")
        if wrong := complaint_of_alternatives(wording):
            raise FaultyCause(f"symptoms/{name}.toml: {wording['dialect']}: {wrong}")
    wordings = [with_whole_patterns(wording) for wording in wordings]
    for wording in wordings:
        wording["literals"] = sorted(required_literals(spaced(wording["pattern"])))
    return {**table, "wording": wordings}


def signs_of(
    rows: Iterable[Mapping[str, Any]], causes: Sequence[str], symptoms: Sequence[str]
) -> dict[str, list[Sign]]:
    """By the id of a cause: what the table says for it and against it."""
    found: dict[str, list[Sign]] = {}
    for row in rows:
        named = [row["is"], *row.get("is_not", [])]
        if row["symptom"] not in symptoms or (unknown := set(named) - set(causes)):
            missing = row["symptom"] if row["symptom"] not in symptoms else ", ".join(unknown)
            raise FaultyCause(f"what_where.toml: there is no {missing}")
        when: dict[str, Any] = {"symptom": row["symptom"]}
        name = f"{row['symptom']}-anywhere"
        if "while" in row:
            when["phase"] = list(row["while"])
            name = f"{row['symptom']}-while-{row['while'][0]}"
        weights = {row["is"]: float(row.get("weight", IS_WEIGHT))}
        weights.update(dict.fromkeys(row.get("is_not", []), IS_NOT_WEIGHT))
        for cause_id, weight in weights.items():
            sign = Sign(name, "symptom", weight, when, group=f"symptom {row['symptom']}")
            found.setdefault(cause_id, []).append(sign)
    return found
