"""Remedies and experiments that make sense for this run, with the gaps in their words filled.

In: a cause, the catalogue's fixes and the facts of a run or log. Out: the same cause with what
fits. What follows from the words of the exception comes first. A remedy says in `when` which facts
it is for (a DataLoader with workers, several ranks, a leak in native code). Of a log, or of a run
in whose processes nothing was recorded, most facts are not known: there only what asks for one of
KNOWN_OF_ALL can be left out. Promises: never an empty list where the cause has any.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rerail.catalogue import Cause, Experiment, Fix, Remedy, fill
from rerail.diagnosis.conditions import fits
from rerail.platform.os_text import printable
from rerail.platform.patterns import LinearPattern, linear
from rerail.wording import cut

KNOWN_OF_ALL = frozenset({"run", "terminated"})  # whether it was recorded, and what its text says
_MOST_FIXES = 1  # a second one would be a more general form of the first
_MOST_OF_A_GAP = 80
_MOST_OF_A_MESSAGE = 4000


def fitted(
    cause: Cause, facts: dict[str, Any], words: Mapping[str, str], fixes: Sequence[Fix] = ()
) -> Cause:
    is_recorded = facts.get("uses") is not None

    def may_fit(when: dict[str, Any]) -> bool:
        return not (is_recorded or when.keys() <= KNOWN_OF_ALL) or fits(facts, when)

    remedies = tuple(each for each in cause.remedies if may_fit(each.when))
    experiments = tuple(each for each in cause.experiments if may_fit(each.when))
    by_message = [
        _filled_remedy(fix.remedy, {**words, **said})
        for fix, said in _fixes_for(cause.id, facts, fixes)
        if may_fit(fix.when)
    ]
    filled = [_filled_remedy(each, words) for each in remedies or cause.remedies]
    return replace(
        cause,
        remedies=(*by_message[:_MOST_FIXES], *filled),
        experiments=tuple(_filled_experiment(each, words) for each in experiments),
    )


def _fixes_for(
    cause_id: str, facts: dict[str, Any], fixes: Sequence[Fix]
) -> Iterator[tuple[Fix, dict[str, str]]]:
    """Yield the fixes that the messages ask for, each with the words of its named groups."""
    for text in _messages(facts):
        folded = " ".join(text.lower().split())
        for fix in fixes:
            if fix.causes and cause_id not in fix.causes:
                continue
            if fix.literals and not any(word in folded for word in fix.literals):
                continue  # much faster than the pattern
            if found := _compiled(fix.pattern).search(text):
                groups = found.groupdict()
                yield (
                    fix,
                    {
                        name: cut(printable(said).strip(), _MOST_OF_A_GAP)
                        for name, said in groups.items()
                        if said
                    },
                )


@functools.cache
def _compiled(pattern: str) -> LinearPattern:
    return linear(pattern)


def _messages(facts: dict[str, Any]) -> Iterator[str]:
    """Yield "Type: message" of the exception, and of the one that it came from or led to."""
    texts = [facts.get("exception_text")]
    texts += [
        (facts.get(name) or {}).get("text") for name in ("exception_before", "exception_after")
    ]
    for text in (*texts, facts.get("last_words")):
        if isinstance(text, str) and text:
            yield text[:_MOST_OF_A_MESSAGE]


def _filled_remedy(remedy: Remedy, words: Mapping[str, str]) -> Remedy:
    return replace(
        remedy,
        title=fill(remedy.title, words) or remedy.title,
        note=fill(remedy.note, words) or remedy.note,
    )


def _filled_experiment(experiment: Experiment, words: Mapping[str, str]) -> Experiment:
    return replace(experiment, expect=fill(experiment.expect, words) or experiment.expect)
