"""Fixes that follow from the words of an exception, whatever cause has the highest probability.

In: the tables of fixes/*.toml. Out: `Fix`es, in the order of the files. The words of a message
often say more about the fix than its cause does: a KeyError on a column name is cured at the same
place, whether the data or the configuration is at fault. FaultyCause for a fix without a line that
it must match and one that it must not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rerail.catalogue.literals import required_literals
from rerail.catalogue.model import SAFETY_ORDER, Fix
from rerail.errors import FaultyCause
from rerail.platform.patterns import linear

_KEYS = {"name", "causes", "pattern", "title", "safety", "note", "when", "matches", "near_misses"}
_REQUIRED = {"name", "pattern", "title", "safety", "matches", "near_misses"}


def fixes_from(table: Mapping[str, Any]) -> list[Fix]:
    return [
        Fix(
            name=each["name"],
            pattern=each["pattern"],
            title=each["title"],
            safety=each["safety"],
            causes=tuple(each.get("causes", ())),
            note=each.get("note", ""),
            when=each.get("when", {}),
            literals=tuple(each["literals"]),
        )
        for each in table["fix"]
    ]


def with_literals(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table with the required words of each pattern, so that they are found once."""
    for fix in table["fix"]:
        fix["literals"] = sorted(required_literals(fix["pattern"]))
    return table


def checked_fixes(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table of fixes/NAME.toml if each fix is complete and right about its lines."""
    for fix in table.get("fix", []):
        here = f"fixes/{name}.toml: {fix.get('name')}"
        if set(fix) - _KEYS or _REQUIRED - set(fix):
            raise FaultyCause(f"{here}: a fix has {', '.join(sorted(_KEYS))}")
        if fix["safety"] not in SAFETY_ORDER:
            raise FaultyCause(f"{here}: safety = {fix['safety']!r}")
        pattern = linear(fix["pattern"])
        for line in fix["matches"]:
            if not pattern.search(line):
                raise FaultyCause(f"{here}: the pattern does not match {line!r}")
        for line in fix["near_misses"]:
            if pattern.search(line):
                raise FaultyCause(f"{here}: the pattern matches {line!r}")
        if not fix["matches"] or not fix["near_misses"]:
            raise FaultyCause(f"{here}: it needs a line to match and one that it must not match")
    if set(table) != {"fix"}:
        raise FaultyCause(f"fixes/{name}.toml: it holds [[fix]] tables and nothing else")
    return with_literals(table)
