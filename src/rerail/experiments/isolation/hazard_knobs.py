"""What makes a failure come sooner, by its cause and by the phase that it comes in: a small table.

Which of the knobs makes a cause come sooner stands in the cause's file, as `raised_by`.

In: the causes and the phase of the failure, and the command. Out: changes that should raise its
rate. Whether they do is measured, never taken for granted (raise_hazard.py).
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rerail.catalogue import HazardKnob, load_catalogue
from rerail.changes import Change, Profile, parse_change, why_not
from rerail.scheduling import own_cores

# Causes that are less likely than this do not speak for a raise.
_LIKELY = 0.1
_EVERY = r"[-_](?:every|interval|freq|frequency|steps|period)(?:[-_]steps)?"


@dataclass(frozen=True)
class WayToRaise:
    """One way. It speaks for itself if `knob` raises the cause or it comes in one of `phases`."""

    knob: HazardKnob | None = None
    phases: frozenset[str] = frozenset()
    own: tuple[str, ...] = ()  # changes of rerail's own that take a number
    option: str = ""  # pattern of an argument of the command itself that takes a number
    factor: float = 1.0  # on that number
    # Knobs that are the same thing. What is itself under investigation is not raised: the change
    # would undo the raise, make the failure rarer, and look like a cure.
    same_thing: str = ""


WAYS_TO_RAISE = (
    WayToRaise(
        phases=frozenset({"mining", "indexing"}),
        option=rf"-*(?:re)?(?:mine|mining|miner|index|indexing|negatives?|hard[-_]negatives?){_EVERY}",
        factor=0.1,
        same_thing=rf"(?:mine|mining|index|negative).*{_EVERY}",
    ),
    WayToRaise(
        phases=frozenset({"saving"}),
        option=rf"-*(?:save|saving|checkpoint|ckpt|snapshot){_EVERY}",
        factor=0.1,
        same_thing=rf"(?:save|saving|checkpoint|ckpt|snapshot).*{_EVERY}",
    ),
    WayToRaise(
        phases=frozenset({"validate", "validation", "val", "eval", "evaluation", "test"}),
        option=rf"-*(?:eval|val|validate|validation|test){_EVERY}",
        factor=0.1,
        same_thing=rf"(?:eval|val|test).*{_EVERY}",
    ),
    WayToRaise(
        knob="workers",
        own=("dataloader-workers",),
        option=r"-*(?:num|n|loader|data|dataloader)?[-_]?workers",
        factor=4.0,
        same_thing=r"worker|start-method|sharing-strategy",
    ),
    WayToRaise(
        knob="threads",
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
    catalogue = load_catalogue()
    likely = [cause for cause, probability in causes.items() if probability >= _LIKELY]
    knobs = {knob for cause in likely for knob in catalogue.policy_of(cause).raised_by}
    for way in WAYS_TO_RAISE:
        if phase not in way.phases and way.knob not in knobs:
            continue
        if any(re.search(way.same_thing, change.knob) for change in under_investigation):
            continue
        texts = [*_own_changes(way, profile), *_arguments(way, command)]
        applying = [
            text for text in texts if why_not(parse_change(text), profile, command, environ) is None
        ]
        if applying:
            return applying
    return []


def _own_changes(way: WayToRaise, profile: Profile) -> Iterator[str]:
    processors = len(own_cores())
    for name in way.own:
        if name == "dataloader-workers":
            if profile.loader_workers:
                yield f"{name}={max(4, 2 * profile.loader_workers)}"
        elif profile.is_recorded:
            yield f"{name}={max(4, 2 * processors)}"


def _arguments(way: WayToRaise, command: Sequence[str]) -> Iterator[str]:
    """Numbers that the command itself gives, larger or smaller."""
    words = _words(command)
    for word, following in itertools.pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        given = value if equals else following
        if not re.fullmatch(way.option, name) or not given.isdigit():
            continue
        number = max(1, round(int(given) * way.factor))
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
