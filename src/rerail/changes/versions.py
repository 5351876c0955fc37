"""Versions as changes: another version of a package, the package away, another Python.

In: text such as 'torch==2.5.*', 'numpy<2', 'without:faiss' or 'python=3.12'. Out: what it is a
value of, and the value; None for text that is none of these. Pure: whether the package is there is
for whoever builds the environment that a trial with such a change runs in.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from rerail.errors import UsageError
from rerail.platform.distributions import normalised
from rerail.platform.patterns import linear

WITHOUT = "without:"
PYTHON = "python"
_PYTHON_VERSION = linear(r"python={1,2}(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)")
_NAME = linear(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")
_KNOB = "package "


class VersionChange(NamedTuple):
    kind: Literal["package", "python"]
    knob: str
    value: str  # a requirement, "" for a package that is taken away; the number of a Python


def read_version_change(text: str) -> VersionChange | None:
    if text.startswith(WITHOUT):
        name = text.removeprefix(WITHOUT).strip()
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{text!r} names no package", f"Write it as, for example: {WITHOUT}faiss"
            )
        return VersionChange("package", _KNOB + normalised(name), "")
    if found := _PYTHON_VERSION.fullmatch(text):
        return VersionChange("python", PYTHON, found[1])
    if text.startswith("-"):
        return None
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    if not requirement.specifier and not requirement.url:
        return None  # a bare word: rather a change of rerail's own, mistyped
    return VersionChange("package", _KNOB + normalised(requirement.name), str(requirement))


def package_of(knob: str) -> str:
    """The normalised name of the package that a change of kind "package" is about."""
    return knob.removeprefix(_KNOB)
