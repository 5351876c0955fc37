"""The wordings of libraries, launchers, shells and kernels, by which rerail recognises their lines.

In: catalogue/wordings/NAME.toml, one file for each reader of text. Out: `Wordings`: its patterns in
the order of the file, by name and by group. Promises: every pattern is linear and compiled when it
is first used; the files are read once, from one JSON document (compiled_data.py).

An entry has a `name`, a `pattern`, what a match `says` to the reader, lines that it `matches`, and
`near_misses`, which it does not. `{any}` in a pattern (which it is where there is none) stands for
the list `any` of alternatives, each of which has a line of its own; `literals` is a list of plain
words instead. `{part}` stands for one of the `[parts]` of the file. Every entry is held to its
lines by tests/catalogue/test_wordings.py.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.errors import FaultyCause
from rerail.platform.compiled_data import (
    NAME,
    digest,
    document_of,
    keep_compiled,
    parse_toml,
    read_compiled,
)
from rerail.platform.patterns import LinearPattern, linear
from rerail.platform.signal_names import OF_LINUX

FOLDER = Path(__file__).parents[1] / "catalogue" / "wordings"
COMPILED = FOLDER / NAME
MADE_BY = [Path(__file__), Path(__file__).with_name("signal_names.py")]
_TOP = {"words", "parts", "ignore_case", "wording"}
_REQUIRED = {"name", "says", "matches", "near_misses"}
_KEYS = {
    *(*_REQUIRED, "pattern", "any", "literals"),
    *("group", "at_start", "ignore_case", "fields"),
}
_PART = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Wording:
    """One way in which something is said. `says`: what the reader learns from it.

    `at_start`: it counts at the beginning of a line only. `fields`: what else its reader knows.
    `literals`: its words, where it is no more than words.
    """

    name: str
    says: str
    pattern: LinearPattern
    group: str = ""
    at_start: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    literals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wordings:
    """Those of one file. `words`: one of them, in lower case, is in every line of interest."""

    entries: tuple[Wording, ...]
    words: tuple[str, ...]

    def __getitem__(self, name: str) -> LinearPattern:
        return next(entry.pattern for entry in self.entries if entry.name == name)

    def of(self, group: str) -> tuple[Wording, ...]:
        return tuple(entry for entry in self.entries if entry.group == group)


@functools.cache
def wordings(name: str) -> Wordings:
    """The wordings of catalogue/wordings/NAME.toml."""
    table = _tables()[name]
    return Wordings(
        tuple(
            Wording(
                name=each["name"],
                says=each["says"],
                pattern=linear(each["pattern"], re.IGNORECASE if each["ignore_case"] else 0),
                group=each["group"],
                at_start=each["at_start"],
                fields=each["fields"],
                literals=tuple(each["literals"]),
            )
            for each in table["wording"]
        ),
        tuple(table["words"]),
    )


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    files = source_files()
    wanted = digest(files, MADE_BY)
    tables = read_compiled(COMPILED, wanted, is_all_there_is=not files)
    if tables is None and not files:
        raise FaultyCause(f"{COMPILED} is damaged or missing.", "Install rerail again.")
    if tables is None:
        tables = [compiled_table(path) for path in files]
        keep_compiled(COMPILED, document_of(tables, wanted))
    return {table["name"]: table for table in tables}


def source_files() -> list[Path]:
    """Every file of wordings; none in a built package (catalogue/build_compiled.py)."""
    return sorted(FOLDER.glob("*.toml"))


def compile_wordings(files: Iterable[Path] = ()) -> str:
    """The text of compiled.json. `files` will lie beside it: none in a built package."""
    return document_of([*map(compiled_table, source_files())], digest([*files], MADE_BY))


def source_table(path: Path) -> dict[str, Any]:
    """The table of one file as it is written; FaultyCause where it is not complete."""
    table = parse_toml(path.read_text(encoding="utf-8"))
    if found := _complaints(table):
        raise FaultyCause(f"wordings/{path.name}: {'; '.join(found)}")
    return table


def compiled_table(path: Path) -> dict[str, Any]:
    """The table of one file, without its examples and with every pattern whole."""
    table = source_table(path)
    parts = parts_of(table)
    return {
        "name": path.stem,
        "words": table.get("words", []),
        "wording": [
            {
                "name": each["name"],
                "says": each["says"],
                "pattern": with_parts(whole_pattern(each), parts),
                "group": each.get("group", ""),
                "at_start": each.get("at_start", False),
                "ignore_case": each.get("ignore_case", table.get("ignore_case", False)),
                "fields": each.get("fields", {}),
                "literals": each.get("literals", []),
            }
            for each in table["wording"]
        ],
    }


def whole_pattern(entry: Mapping[str, Any]) -> str:
    """The pattern of an entry, with its list of alternatives in the place of `{any}`."""
    if "literals" in entry:
        return _choice(entry["literals"])
    pattern: str = entry.get("pattern", "{any}")
    return pattern.replace("{any}", "|".join(entry.get("any", ())))


def complaint_of_alternatives(entry: Mapping[str, Any]) -> str:
    pattern = entry.get("pattern", "{any}")
    if "any" in entry and pattern.count("{any}") != 1:
        return "the pattern has to say once where its alternatives stand: {any}"
    return "pattern or any missing" if "any" not in entry and "{any}" in pattern else ""


def _complaints(table: Mapping[str, Any]) -> list[str]:
    found = [f"unknown key {key}" for key in sorted(set(table) - _TOP)]
    names = set()
    for each in table.get("wording", ()):
        name = each.get("name", "a wording without a name")
        found += [f"{name}: {key} missing" for key in sorted(_REQUIRED) if not each.get(key)]
        found += [f"{name}: unknown key {key}" for key in sorted(set(each) - _KEYS)]
        if "literals" not in each and (wrong := complaint_of_alternatives(each)):
            found.append(f"{name}: {wrong}")
        if name in names:
            found.append(f"{name}: the name is used twice")
        names.add(name)
    return found if table.get("wording") else [*found, "wording missing"]


def with_parts(pattern: str, parts: Mapping[str, str]) -> str:
    return _PART.sub(lambda found: parts[found[1]], pattern)


def parts_of(table: Mapping[str, Any]) -> dict[str, str]:
    """What may stand in braces in a pattern; a list is a choice, and a part may use one before."""
    parts = {"signal_name": "|".join(OF_LINUX.values())}
    for name, value in table.get("parts", {}).items():
        if isinstance(value, dict):
            parts[name] = _choice(_literals_of(value["literals_of"]))
        else:
            text = value if isinstance(value, str) else "|".join(value)
            parts[name] = with_parts(text, parts)
    return parts


def _literals_of(name: str) -> list[str]:
    table = parse_toml((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return [word for each in table["wording"] for word in each["literals"]]


def _choice(literals: Iterable[str]) -> str:
    """The longest first: a pattern takes the first alternative that fits."""
    return "|".join(re.escape(word) for word in sorted(literals, key=len, reverse=True))
