"""Reads the cause files that lie beside this module, in one go and quickly (compiled.py).

`load_catalogue` raises `FaultyCause` for a file that is not complete, with every complaint.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from rerail.catalogue.compiled import NAME, digest, document_of, keep_compiled, read_compiled
from rerail.catalogue.literals import required_literals, spaced
from rerail.catalogue.model import Catalogue
from rerail.catalogue.schema import FAMILIES, cause_from, complaints
from rerail.catalogue.template import new_cause, unfilled_lines
from rerail.errors import FaultyCause, UsageError

CAUSES = Path(__file__).parent / "causes"
COMPILED = Path(__file__).parent / NAME


@functools.cache
def load_catalogue() -> Catalogue:
    """Every cause, in the order of the families and then by id."""
    files = cause_files()
    wanted = digest(files)
    tables = read_compiled(COMPILED, wanted)
    if tables is None:
        tables = [read_table(path) for path in files]
        keep_compiled(COMPILED, document_of(tables, wanted))
    rank = {family: at for at, family in enumerate(FAMILIES)}
    tables.sort(key=lambda table: (rank[table["family"]], table["id"]))
    return Catalogue({table["id"]: cause_from(table) for table in tables})


def cause_files() -> list[Path]:
    return sorted(CAUSES.glob("*/*.toml"))


def write_new_cause(cause_id: str, family: str, title: str) -> Path:
    """Start the file of a cause: a template that is refused until it is filled in."""
    text = new_cause(cause_id, family, title)
    if any(path.stem == cause_id for path in cause_files()):
        raise UsageError(f"{cause_id} is there already; an id is never used twice")
    path = CAUSES / family / f"{cause_id}.toml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
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
        table = _parsed(text)
    except ValueError as error:
        raise FaultyCause(f"{name} is not TOML: {error}") from None
    found = complaints(table, path.stem)
    if table.get("family") != path.parent.name:
        found.append(f"family: {table.get('family')} is not the folder {path.parent.name}")
    if found:
        raise FaultyCause(f"{name}: {'; '.join(found)}")
    return _with_literals(table)


def _parsed(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    table: dict[str, Any] = tomllib.loads(text)
    return table


def _with_literals(table: dict[str, Any]) -> dict[str, Any]:
    """Worked out here so that compiled.json carries it: parsing patterns at start is slow."""
    for signature in table.get("signature", ()):
        signature["literals"] = sorted(required_literals(spaced(signature["pattern"])))
    return table


def compile_unchecked() -> str:
    """The text of compiled.json, for a build: RE2, which checks the patterns, is not there."""
    files = cause_files()
    tables = [_with_literals(_parsed(path.read_text(encoding="utf-8"))) for path in files]
    return document_of(tables, digest(files))
