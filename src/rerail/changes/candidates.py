"""Which changes are worth trying, and how likely is each to be the one?

In: the diagnosis of the failure and the profile of the run. Out: changes with weights for the
planner. What the catalogue names as an experiment or a safe remedy for a likely cause comes
first; rerail's own changes that apply to the run follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.catalogue import Catalogue
from rerail.changes.apply import DoesNotApply, apply_changes
from rerail.changes.known import OWN_CHANGES
from rerail.changes.parse import Change, parse_change
from rerail.changes.profile import Profile
from rerail.errors import UsageError

# How much likelier a change is that the catalogue names for a cause of probability one.
_NAMED_WEIGHT = 6.0
MOST_DEFAULTS = 8
_LIKELY = 0.1
_REVISION_TELLS = "whether the program as it was at that revision had the failure"


@dataclass(frozen=True)
class Offer:
    """One line of `rerail isolate --list`."""

    text: str
    applies: bool
    why_not: str
    tells: str


def named_by_causes(causes: Mapping[str, float], catalogue: Catalogue) -> dict[str, float]:
    """Changes that experiments and safe remedies of these causes name, with their weights."""
    weights: dict[str, float] = {}
    for cause_id, probability in causes.items():
        if cause_id not in catalogue:
            continue
        cause = catalogue[cause_id]
        named = [change for each in cause.experiments for change in each.change]
        named += [c for r in cause.remedies if r.safety == "safe" for c in r.change]
        for change in named:
            weights[change] = max(weights.get(change, 0.0), _NAMED_WEIGHT * probability)
    return weights


def default_changes(
    causes: Mapping[str, float],
    catalogue: Catalogue,
    profile: Profile,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    only_named: bool = False,
) -> list[Change]:
    """What to try when nobody says; only what applies, the likeliest first, one per knob.

    `only_named`: only what a likely cause names, where a change of the surroundings tells nothing.
    """
    if only_named:
        causes = {cause: chance for cause, chance in causes.items() if chance >= _LIKELY}
    named = named_by_causes(causes, catalogue)
    texts = sorted(named, key=lambda text: -named[text])
    if not only_named:
        texts += [own.text for own in OWN_CHANGES.values() if not own.is_for_listing_only]
    found: dict[str, Change] = {}
    for change in _parsed(texts):
        if change.knob in found:
            continue
        if why_not(change, profile, command, environ) is None:
            found[change.knob] = change
    return list(found.values())[:MOST_DEFAULTS]


def priors(
    changes: Sequence[Change], causes: Mapping[str, float], catalogue: Catalogue
) -> dict[str, float]:
    named = named_by_causes(causes, catalogue)
    knobs = {change.knob: named[change.text] for change in _parsed(named)}
    return {change.text: 1.0 + knobs.get(change.knob, 0.0) for change in changes}


def why_not(
    change: Change,
    profile: Profile,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    has_trees: bool = False,
) -> str | None:
    """The sentence on why it does not apply, or None."""
    try:
        apply_changes(command, environ, [change], profile, has_trees=has_trees)
    except DoesNotApply as error:
        return str(error)
    return None


def offers(
    profile: Profile, command: Sequence[str], environ: Mapping[str, str], folder: Path | None = None
) -> list[Offer]:
    """Every change of rerail's own, and a revision for a program in `folder`, those that apply
    first."""
    found = []
    if folder is not None:
        is_there = any((each / ".git").exists() for each in (folder, *folder.parents))
        missing = "" if is_there else "the command does not run in a git repository"
        found.append(Offer("git:HEAD~1", is_there, missing, _REVISION_TELLS))
    for own in OWN_CHANGES.values():
        reason = why_not(parse_change(own.text), profile, command, environ)
        found.append(Offer(own.text, reason is None, reason or "", own.tells))
    return sorted(found, key=lambda offer: not offer.applies)


def _parsed(texts: Sequence[str] | Mapping[str, float]) -> Iterator[Change]:
    for text in texts:
        try:
            yield parse_change(text)
        except UsageError:
            continue  # a remedy in words rather than a change
