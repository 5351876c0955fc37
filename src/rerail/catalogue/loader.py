"""Reads the cause files that lie beside this module, in one go and quickly (compiled_data.py).

`load_catalogue` raises `FaultyCause` for a file that is not complete, with every complaint.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.catalogue.literals import required_literals, spaced
from rerail.catalogue.message_fixes import checked_fixes, fixes_from, with_literals
from rerail.catalogue.model import Catalogue
from rerail.catalogue.schema import FAMILIES, cause_from, complaints, with_whole_patterns
from rerail.catalogue.template import new_cause, unfilled_lines
from rerail.catalogue.what_where import checked_symptom, signs_of, symptom_from
from rerail.errors import FaultyCause, UsageError
from rerail.platform import wordings
from rerail.platform.compiled_data import (
    NAME,
    digest,
    document_of,
    keep_compiled,
    parse_toml,
    read_compiled,
)
from rerail.platform.user_files import create_user_file

CAUSES = Path(__file__).parent / "causes"
SYMPTOMS = Path(__file__).parent / "symptoms"
FIXES = Path(__file__).parent / "fixes"
WHAT_WHERE = Path(__file__).parent / "what_where.toml"
COMPILED = Path(__file__).parent / NAME
MADE_BY = [
    Path(__file__).with_name(name)
    for name in ("literals.py", "message_fixes.py", "model.py", "schema.py", "what_where.py")
]
MADE_BY += [Path(wordings.__file__)]


@functools.cache
def load_catalogue() -> Catalogue:
    """Every cause, in the order of the families and then by id."""
    files = source_files()
    wanted = digest(files, MADE_BY)
    tables = read_compiled(COMPILED, wanted, is_all_there_is=not files)
    if tables is None and not files:
        raise FaultyCause(f"{COMPILED} is damaged or missing.", "Install rerail again.")
    if tables is None:
        tables = read_tables()
        keep_compiled(COMPILED, document_of(tables, wanted))
    return _catalogue(tables)


def _catalogue(tables: Sequence[dict[str, Any]]) -> Catalogue:
    rank = {family: at for at, family in enumerate(FAMILIES)}
    of_causes = [table for table in tables if "family" in table]
    of_causes.sort(key=lambda table: (rank[table["family"]], table["id"]))
    causes = {table["id"]: cause_from(table) for table in of_causes}
    symptoms = tuple(symptom_from(table) for table in tables if "wording" in table)
    rows = next(table["row"] for table in tables if "row" in table)
    for cause_id, signs in signs_of(rows, list(causes), [each.id for each in symptoms]).items():
        causes[cause_id] = replace(causes[cause_id], signs=(*causes[cause_id].signs, *signs))
    fixes = tuple(fix for table in tables if "fix" in table for fix in fixes_from(table))
    return Catalogue(causes, symptoms, fixes)


def source_files() -> list[Path]:
    """Every file that the catalogue is made of; none in a built package (build_compiled.py)."""
    return [*cause_files(), *symptom_files(), *fix_files(), *filter(Path.exists, [WHAT_WHERE])]


def read_tables() -> list[dict[str, Any]]:
    """Their tables, checked, in the same order."""
    what_where = parse_toml(WHAT_WHERE.read_text(encoding="utf-8"))
    fixes = [checked_fixes(parse_toml(p.read_text(encoding="utf-8")), p.stem) for p in fix_files()]
    return [
        *map(read_table, cause_files()),
        *map(read_symptom, symptom_files()),
        *fixes,
        what_where,
    ]


def cause_files() -> list[Path]:
    return sorted(CAUSES.glob("*/*.toml"))


def symptom_files() -> list[Path]:
    return sorted(SYMPTOMS.glob("*.toml"))


def fix_files() -> list[Path]:
    return sorted(FIXES.glob("*.toml"))


def read_symptom(path: Path) -> dict[str, Any]:
    return checked_symptom(parse_toml(path.read_text(encoding="utf-8")), path.stem)


def write_new_cause(cause_id: str, family: str, title: str) -> Path:
    """Start the file of a cause: a template that is refused until it is filled in."""
    text = new_cause(cause_id, family, title)
    if any(path.stem == cause_id for path in cause_files()):
        raise UsageError(f"{cause_id} is there already; an id is never used twice")
    path = CAUSES / family / f"{cause_id}.toml"
    try:
        create_user_file(path, text.encode())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            "Causes are added in a source tree of rerail that is installed with pip install -e.",
        ) from None
    return path


def read_table(path: Path) -> dict[str, Any]:
    """The table of one file; raises FaultyCause with everything that is wrong with it."""
    text = path.read_text(encoding="utf-8")
    name = f"{path.parent.name}/{path.name}"
    if unfilled := unfilled_lines(text):
        raise FaultyCause(f"{name} is to be filled in:", "\n".join(unfilled))
    try:
        table = parse_toml(text)
    except ValueError as error:
        raise FaultyCause(f"{name} is not TOML: {error}") from None
    found = complaints(table, path.stem)
    if table.get("family") != path.parent.name:
        found.append(f"family: {table.get('family')} is not the folder {path.parent.name}")
    if found:
        raise FaultyCause(f"{name}: {'; '.join(found)}")
    return _with_literals(table)


def _with_literals(table: dict[str, Any]) -> dict[str, Any]:
    """Worked out here so that compiled.json carries it: parsing patterns at start is slow."""
    signatures = [with_whole_patterns(signature) for signature in table.get("signature", ())]
    for signature in signatures:
        signature["literals"] = sorted(required_literals(spaced(signature["pattern"])))
    return {**table, "signature": signatures} if signatures else table


def compile_unchecked(files: Sequence[Path] = ()) -> str:
    """The text of compiled.json, for a build: RE2, which checks the patterns, is not there.

    `files` are the sources that will lie beside it: none in a built package.
    """
    texts = [path.read_text(encoding="utf-8") for path in cause_files()]
    tables = [_with_literals(parse_toml(text)) for text in texts]
    tables += [read_symptom(path) for path in symptom_files()]
    texts = [path.read_text(encoding="utf-8") for path in fix_files()]
    tables += [with_literals(parse_toml(text)) for text in texts]
    tables.append(parse_toml(WHAT_WHERE.read_text(encoding="utf-8")))
    return document_of(tables, digest(files, MADE_BY))
