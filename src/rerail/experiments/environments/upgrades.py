"""Two lists of what was installed: each package that differs is one change back.

In: two requirement files as `pip freeze` writes them, of before and of now. Out: texts of changes,
one for each package whose version differs, that came or that went, and what was passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from rerail.changes import WITHOUT
from rerail.errors import UnreadableInput, UsageError
from rerail.platform.distributions import normalised

_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Upgrades:
    changes: tuple[str, ...]
    notes: tuple[str, ...]


def read_upgrades(old: Path, new: Path) -> Upgrades:
    notes: list[str] = []
    before, after = dict(read_list(old, notes)), dict(read_list(new, notes))
    return compare(
        before, after, f"{old} and {new} name the same versions: nothing was upgraded", notes
    )


def compare(
    before: Mapping[str, str], after: Mapping[str, str], if_same: str, notes: Sequence[str]
) -> Upgrades:
    """By name, requirements of before and of now; `if_same` is the complaint."""
    changes = []
    for name in sorted({*before, *after}):
        if name not in before:
            changes.append(f"{WITHOUT}{name}")
        elif name not in after or _pin(before[name]) != _pin(after[name]):
            changes.append(before[name])
    if not changes:
        raise UsageError(if_same)
    return Upgrades(tuple(changes), tuple(notes))


def read_list(path: Path, notes: list[str]) -> Iterator[tuple[str, str]]:
    """Name and requirement of each line that says exactly what was installed."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from None
    for line in text.replace("\\\n", " ").splitlines():
        stripped = line.partition(" #")[0].partition(" --hash")[0].strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            requirement = Requirement(stripped)
        except InvalidRequirement:
            notes.append(f"{path}: passed over {stripped!r}, which names no package and version")
            continue
        requirement.marker = None
        if requirement.url or _is_exact(requirement):
            yield normalised(requirement.name), str(requirement)
        else:
            notes.append(f"{path}: passed over {stripped!r}, which names no exact version")


def _pin(line: str) -> tuple[str, str]:
    """Version or source, whatever the spelling of the name."""
    requirement = Requirement(line)
    return str(requirement.specifier), requirement.url or ""


def is_exact(line: str) -> bool:
    try:
        return _is_exact(Requirement(line))
    except InvalidRequirement:
        return False


def _is_exact(requirement: Requirement) -> bool:
    specifiers = list(requirement.specifier)
    return (
        len(specifiers) == 1
        and specifiers[0].operator in ("==", "===")
        and not specifiers[0].version.endswith("*")
    )
