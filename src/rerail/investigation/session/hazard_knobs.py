"""What makes a failure come sooner, by its cause and by the phase that it comes in: a small table.

In: the causes and the phase of the failure, and the command. Out: changes that should raise its
rate. Whether they do is measured, never taken for granted (raising.py).
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rerail.changes import Change, Profile, parse_change, why_not
from rerail.scheduling import own_cores

# Causes that are less likely than this do not speak for a raise.
_LIKELY = 0.1
_EVERY = r"[-_](?:every|interval|freq|frequency|steps|period)(?:[-_]steps)?"


@dataclass(frozen=True)
class HazardKnob:
    """One way. It speaks for itself if the failure has one of `causes` or comes in a `phase`."""

    causes: frozenset[str] = frozenset()
    phases: frozenset[str] = frozenset()
    own: tuple[str, ...] = ()  # changes of rerail's own that take a number
    option: str = ""  # pattern of an argument of the command itself that takes a number
    factor: float = 1.0  # on that number
    # Knobs that are the same thing. What is itself under investigation is not raised: the change
    # would undo the raise, make the failure rarer, and look like a cure.
    same_thing: str = ""


HAZARD_KNOBS = (
    HazardKnob(
        phases=frozenset({"mining", "indexing"}),
        option=rf"-*(?:re)?(?:mine|mining|miner|index|indexing|negatives?|hard[-_]negatives?){_EVERY}",
        factor=0.1,
        same_thing=rf"(?:mine|mining|index|negative).*{_EVERY}",
    ),
    HazardKnob(
        phases=frozenset({"saving"}),
        option=rf"-*(?:save|saving|checkpoint|ckpt|snapshot){_EVERY}",
        factor=0.1,
        same_thing=rf"(?:save|saving|checkpoint|ckpt|snapshot).*{_EVERY}",
    ),
    HazardKnob(
        phases=frozenset({"validate", "validation", "val", "eval", "evaluation", "test"}),
        option=rf"-*(?:eval|val|validate|validation|test){_EVERY}",
        factor=0.1,
        same_thing=rf"(?:eval|val|test).*{_EVERY}",
    ),
    HazardKnob(
        causes=frozenset({"fork-after-threads", "worker-crashed", "loader-hang", "shm-exhausted"}),
        own=("dataloader-workers",),
        option=r"-*(?:num|n|loader|data|dataloader)?[-_]?workers",
        factor=4.0,
        same_thing=r"worker|start-method|sharing-strategy",
    ),
    HazardKnob(
        causes=frozenset(
            {
                "openmp-duplicate-runtime",
                "threading-layer-conflict",
                "heap-corruption",
                "native-segfault",
            }
        ),
        own=("openmp-threads", "torch-threads"),
        option=r"-*(?:num|n|omp|torch|cpu)?[-_]?threads",
        factor=4.0,
        same_thing=r"thread|THREAD",
    ),
)


def changes_that_raise(
    causes: Mapping[str, float],
    phase: str | None,
    under_investigation: Sequence[Change],
    profile: Profile,
    command: Sequence[str],
    environ: Mapping[str, str],
) -> list[str]:
    """The first way that applies, as changes; none if there is no such way."""
    likely = {cause for cause, probability in causes.items() if probability >= _LIKELY}
    for knob in HAZARD_KNOBS:
        if phase not in knob.phases and not knob.causes & likely:
            continue
        if any(re.search(knob.same_thing, change.knob) for change in under_investigation):
            continue
        texts = [*_own_changes(knob, profile), *_arguments(knob, command)]
        applying = [
            text for text in texts if why_not(parse_change(text), profile, command, environ) is None
        ]
        if applying:
            return applying
    return []


def _own_changes(knob: HazardKnob, profile: Profile) -> Iterator[str]:
    processors = len(own_cores())
    for name in knob.own:
        if name == "dataloader-workers":
            if profile.loader_workers:
                yield f"{name}={max(4, 2 * profile.loader_workers)}"
        elif profile.is_recorded:
            yield f"{name}={max(4, 2 * processors)}"


def _arguments(knob: HazardKnob, command: Sequence[str]) -> Iterator[str]:
    """Numbers that the command itself gives, larger or smaller."""
    words = _words(command)
    for word, following in itertools.pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        given = value if equals else following
        if not re.fullmatch(knob.option, name) or not given.isdigit():
            continue
        number = max(1, round(int(given) * knob.factor))
        if int(given) > 0 and number != int(given):
            joint = " " if name.startswith("-") else "="
            yield f"{name}{joint}{number}"


def _words(command: Sequence[str]) -> list[str]:
    """Also those of a script behind `sh -c`."""
    words: list[str] = []
    for word in command[1:]:
        if " " not in word:
            words.append(word)
            continue
        script = shlex.shlex(word, posix=True, punctuation_chars=True)
        script.whitespace_split = True
        try:
            words += script
        except ValueError:
            continue  # a quotation that has no end
    return words
