"""One thing that could be different about a command, as a person writes it.

In: text such as '--accum 4', 'lr=0.1', 'OMP_NUM_THREADS=1', 'dataloader-workers=0', 'numpy<2' or
'git:HEAD~3'. Out: a `Change`. Two changes with the same `knob` are two values of one thing and
cannot be applied together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.changes.known import OWN_CHANGES, OwnChange
from rerail.changes.versions import package_of, read_version_change
from rerail.errors import UsageError
from rerail.platform.patterns import linear

ChangeKind = Literal[
    "option",
    "setting",
    "environment",
    "own",
    "package",  # another version of it, or none
    "python",
    "git",  # the program as it was at a revision
    "edit",  # the program without one of the user's edits, which `isolate --edits` names
]
TREE_KINDS: tuple[ChangeKind, ...] = ("git", "edit")  # run in another tree than the user's

_ENVIRONMENT = linear(r"([A-Z_][A-Z0-9_]*)=(.*)", re.DOTALL)
_SETTING = linear(r"([+~]{0,2}[A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)

_NUMBER = linear(r"[+-]?[0-9][0-9_.]{0,30}(?:e[+-]?[0-9]{1,3})?")
_WORKING_AT_ONCE = linear(r"worker|thread|proc|jobs|prefetch")


@dataclass(frozen=True)
class Change:
    text: str  # as it was written, in one spelling of blanks
    kind: ChangeKind
    knob: str  # option, setting, variable or own name
    values: tuple[str, ...] = ()
    is_joined: bool = False  # an option that was written --name=value, as some programs demand

    @property
    def value(self) -> str:
        return self.values[0] if self.values else ""

    @property
    def is_of_tree(self) -> bool:
        """Whether the program itself is another, so that it runs in another folder."""
        return self.kind in TREE_KINDS

    @property
    def own(self) -> OwnChange:
        return OWN_CHANGES[self.knob]

    @property
    def needs_environment(self) -> bool:
        """Whether a trial with it runs in an environment of its own."""
        return self.kind in ("package", "python")

    @property
    def package(self) -> str:
        """The normalised name, of a change of kind "package"."""
        return package_of(self.knob)


def parse_change(text: str) -> Change:
    stripped = " ".join(text.split()) if "'" not in text and '"' not in text else text.strip()
    if not stripped:
        raise UsageError("an empty change", "Write it as: --try '--accum 4'")
    if stripped.startswith("git:"):
        return Change(stripped, "git", "git", (_revision(stripped),))
    if stripped.startswith("edit:"):
        return Change(stripped, "edit", stripped)
    name, equals, value = stripped.partition("=")
    if name in OWN_CHANGES:
        own = OWN_CHANGES[name]
        own.check(value if equals else None)
        return Change(stripped, "own", name, (value,) if equals else ())
    if stripped.startswith("-"):
        return _option(stripped)
    if found := _ENVIRONMENT.fullmatch(stripped):
        return Change(stripped, "environment", found[1], (found[2],))
    if version := read_version_change(stripped):
        return Change(stripped, version.kind, version.knob, (version.value,))
    if found := _SETTING.fullmatch(stripped):
        return Change(stripped, "setting", found[1].lstrip("+~"), (found[2],))
    raise UsageError(f"{text!r} is not a change that rerail knows{_closest(name)}", _HOW)


_HOW = (
    "Write an argument ('--accum 4'), a variable (OMP_NUM_THREADS=1), a version ('numpy<2'), a\n"
    "revision (git:HEAD~3), or one of rerail's own, which `rerail isolate --list -- CMD` names."
)


def _revision(text: str) -> str:
    revision = text.removeprefix("git:").strip()
    if not revision or revision.startswith("-") or ".." in revision:
        raise UsageError(
            f"{text!r} names no revision",
            "Write one as git knows it: --try git:HEAD~3, git:main, git:1a2b3c4.",
        )
    return revision


def _closest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, OWN_CHANGES, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _option(text: str) -> Change:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be read as an argument: {error}", _HOW) from None
    first, equals, value = words[0].partition("=")
    if not first.strip("-"):
        raise UsageError(f"{text!r} names no argument", _HOW)
    values = ([value] if equals else []) + words[1:]
    return Change(text, "option", first, tuple(values), is_joined=bool(equals))


def parse_changes(texts: Sequence[str]) -> list[Change]:
    """Each once, however often and in whatever spelling it was named."""
    found: dict[tuple[str, tuple[str, ...]], Change] = {}
    for text in texts:
        change = parse_change(text)
        found.setdefault((change.knob, change.values), change)
    return list(found.values())


def exclusive_groups(changes: Sequence[Change]) -> list[list[str]]:
    """Changes that are values of one thing: a trial can have one of each group."""
    by_knob: dict[str, list[str]] = {}
    for change in changes:
        by_knob.setdefault(change.knob, []).append(change.text)
    return [texts for texts in by_knob.values() if len(texts) > 1]


def may_move_steps(change: Change) -> bool:
    """Whether a step may be another portion of the work with it: a batch of another size.

    An argument with a number may be anything, but for those that say how many work at once.
    """
    if change.kind == "own":
        return change.knob == "npz-rows"
    is_number = any(_NUMBER.fullmatch(value) for value in change.values)
    is_argument = change.kind in ("option", "setting")
    return is_argument and is_number and not _WORKING_AT_ONCE.search(change.knob.lower())
