"""Remedies and experiments that make sense for this run, with the gaps in their words filled.

In: a cause and the facts of a run or log. Out: the same cause with what fits. A remedy says in
`when` which facts it is for (a DataLoader with workers, several ranks, a leak in native code). Of a
log, or of a run in whose processes nothing was recorded, most facts are not known: there only what
asks for one of KNOWN_OF_ALL can be left out. Promises: never an empty list where the cause has any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rerail.catalogue import Cause, Experiment, Remedy, fill
from rerail.diagnosis.conditions import fits

KNOWN_OF_ALL = frozenset({"run", "terminated"})  # whether it was recorded, and what its text says


def fitted(cause: Cause, facts: dict[str, Any], words: Mapping[str, str]) -> Cause:
    is_recorded = facts.get("uses") is not None

    def may_fit(when: dict[str, Any]) -> bool:
        return not (is_recorded or when.keys() <= KNOWN_OF_ALL) or fits(facts, when)

    remedies = tuple(each for each in cause.remedies if may_fit(each.when))
    experiments = tuple(each for each in cause.experiments if may_fit(each.when))
    return replace(
        cause,
        remedies=tuple(_filled_remedy(each, words) for each in remedies or cause.remedies),
        experiments=tuple(_filled_experiment(each, words) for each in experiments),
    )


def _filled_remedy(remedy: Remedy, words: Mapping[str, str]) -> Remedy:
    return replace(
        remedy,
        title=fill(remedy.title, words) or remedy.title,
        note=fill(remedy.note, words) or remedy.note,
    )


def _filled_experiment(experiment: Experiment, words: Mapping[str, str]) -> Experiment:
    return replace(experiment, expect=fill(experiment.expect, words) or experiment.expect)
