"""Which remedy may be applied without asking, and what the command becomes with it.

In: the cause of a death and what the user allows. Out: a remedy of the catalogue, or none; and the
command with remedies applied. A remedy is applied only if it is a change that rerail can make, if
it makes a difference to this run, if the catalogue does not leave it to a person (`by_hand`), and
if its safety is allowed: `safe` always, the others when the user says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rerail.catalogue import SAFETY_ORDER, Cause, Remedy
from rerail.changes import Change, Changed, Profile, apply_changes, parse_change, why_not
from rerail.diagnosis import Candidate
from rerail.errors import UsageError


@dataclass(frozen=True)
class Applied:
    """A remedy at work."""

    cause: str
    id: str
    title: str
    safety: str
    changes: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.cause, self.id

    @property
    def words(self) -> str:
        return f"{' '.join(self.changes)} ({self.safety}: {self.title})"


@dataclass(frozen=True)
class Prescription:
    remedy: Applied | None
    withheld: tuple[Applied, ...] = ()  # would apply, but for their safety


def prescribe(
    leading: Candidate | None,
    *,
    allowed: Collection[str],
    refuted: Collection[tuple[str, str]],
    command: Sequence[str],
    environ: Mapping[str, str],
    profile: Profile,
) -> Prescription:
    """The first usable remedy of the cause, the safest first."""
    if leading is None:
        return Prescription(None)
    withheld: list[Applied] = []
    for remedy in sorted(leading.cause.remedies, key=lambda each: SAFETY_ORDER[each.safety]):
        key = (leading.cause.id, remedy.id)
        if key in refuted or remedy.by_hand:
            continue
        applied = _usable(leading.cause, remedy, command, environ, profile)
        if applied is None:
            continue
        if remedy.safety == "safe" or remedy.safety in allowed:
            return Prescription(applied, tuple(withheld))
        withheld.append(applied)
    return Prescription(None, tuple(withheld))


def _usable(
    cause: Cause,
    remedy: Remedy,
    command: Sequence[str],
    environ: Mapping[str, str],
    profile: Profile,
) -> Applied | None:
    changes = []
    for text in remedy.change:
        try:
            change = parse_change(text)
        except UsageError:
            return None  # words for a person
        if _would_overwrite_a_path(change, environ):
            return None
        if why_not(change, profile, command, environ) is None:
            changes.append(change.text)
    if not changes:
        return None  # none of it makes a difference here
    return Applied(cause.id, remedy.id, remedy.title, remedy.safety, tuple(changes))


def _would_overwrite_a_path(change: Change, environ: Mapping[str, str]) -> bool:
    """PYTHONPATH=. in place of the user's own would take modules away."""
    return change.kind == "environment" and change.knob.endswith("PATH") and change.knob in environ


def apply_remedies(
    command: Sequence[str],
    environ: Mapping[str, str],
    remedies: Sequence[Applied],
    profile: Profile,
) -> Changed:
    """The command with all of them; of two values of one thing, the later."""
    changes = {change.knob: change for change in _changes_of(remedies)}
    # The resume arguments may say one of them already.
    usable = [c for c in changes.values() if why_not(c, profile, command, environ) is None]
    return apply_changes(command, environ, usable, profile)


def _changes_of(remedies: Sequence[Applied]) -> Iterator[Change]:
    for remedy in remedies:
        for text in remedy.changes:
            yield parse_change(text)


def merged(first: Profile, second: Profile) -> Profile:
    """What two runs together show: with one runtime preloaded, only one is seen any more."""
    return replace(
        second,
        is_recorded=first.is_recorded or second.is_recorded,
        has_boxes=first.has_boxes or second.has_boxes,
        loaders=tuple(sorted({*first.loaders, *second.loaders})),
        pins_memory=first.pins_memory or second.pins_memory,
        uses_torch=first.uses_torch or second.uses_torch,
        uses_gpu=first.uses_gpu or second.uses_gpu,
        loads_npz=first.loads_npz or second.loads_npz,
        openmp_paths=max(first.openmp_paths, second.openmp_paths, key=len),
        peak_rss_bytes=max(first.peak_rss_bytes, second.peak_rss_bytes),
    )
