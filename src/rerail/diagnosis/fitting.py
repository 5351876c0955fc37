"""Remedies and experiments that make sense for this run, with the gaps in their words filled.

In: a cause and the facts of a run or log. Out: the same cause with what fits. A remedy says in
`needs` what the run must have used (a DataLoader with workers, several ranks, a GPU); a recorded
run knows that, of a log nothing is left out. Promises: never an empty list where the cause has any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rerail.catalogue import Cause, Experiment, Remedy, fill


def fitted(cause: Cause, facts: Mapping[str, Any], words: Mapping[str, str]) -> Cause:
    uses = facts.get("uses")
    remedies = tuple(r for r in cause.remedies if _fits(r.needs, uses)) or cause.remedies
    experiments = tuple(e for e in cause.experiments if _fits(e.needs, uses))
    return replace(
        cause,
        remedies=tuple(_filled_remedy(remedy, words) for remedy in remedies),
        experiments=tuple(_filled_experiment(each, words) for each in experiments),
    )


def _fits(needs: Sequence[str], uses: Sequence[str] | None) -> bool:
    return uses is None or set(needs) <= set(uses)


def _filled_remedy(remedy: Remedy, words: Mapping[str, str]) -> Remedy:
    return replace(
        remedy,
        title=fill(remedy.title, words) or remedy.title,
        note=fill(remedy.note, words) or remedy.note,
    )


def _filled_experiment(experiment: Experiment, words: Mapping[str, str]) -> Experiment:
    return replace(experiment, expect=fill(experiment.expect, words) or experiment.expect)
