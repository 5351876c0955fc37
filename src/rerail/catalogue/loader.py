"""Reads the cause files that lie beside this module, in one go and quickly.

Parsing 65 TOML files at every start takes a noticeable part of a second, so the package carries
`compiled.json`, written by `scripts/compile-catalogue` together with a digest of the files it came
from. `load_catalogue` uses it only when the digest is that of the files on disk; after an edit it
reads the files themselves, so a stale copy can slow a start but never change an answer.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from rerail.catalogue.literals import required_literals, spaced
from rerail.catalogue.model import Catalogue
from rerail.catalogue.schema import FAMILIES, cause_from, complaints

CAUSES = Path(__file__).parent / "causes"
COMPILED = Path(__file__).parent / "compiled.json"


@functools.cache
def load_catalogue() -> Catalogue:
    """Every cause, in the order of the families and then by id."""
    files = cause_files()
    compiled = _compiled_for(digest(files))
    tables = compiled if compiled is not None else [read_table(path) for path in files]
    rank = {family: at for at, family in enumerate(FAMILIES)}
    tables.sort(key=lambda table: (rank[table["family"]], table["id"]))
    return Catalogue({table["id"]: cause_from(table) for table in tables})


def cause_files() -> list[Path]:
    return sorted(CAUSES.glob("*/*.toml"))


def read_table(path: Path) -> dict[str, Any]:
    """The table of one file; raises ValueError with every complaint that the schema has."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    found = complaints(table, path.stem)
    if table.get("family") != path.parent.name:
        found.append(f"family: {table.get('family')} is not the folder {path.parent.name}")
    if found:
        raise ValueError(f"{path.name}: " + "; ".join(found))
    for signature in table.get("signature", ()):
        # Worked out here so that compiled.json carries it: parsing patterns at start is slow.
        signature["literals"] = sorted(required_literals(spaced(signature["pattern"])))
    return table


def digest(files: list[Path]) -> str:
    content = hashlib.blake2b(digest_size=16)
    for path in files:
        content.update(path.name.encode())
        content.update(path.read_bytes())
    return content.hexdigest()


def _compiled_for(wanted: str) -> list[dict[str, Any]] | None:
    try:
        document = json.loads(COMPILED.read_bytes())
        return document["causes"] if document["digest"] == wanted else None
    except (OSError, ValueError, KeyError):
        return None


def compile_catalogue() -> str:
    """The text of compiled.json for the files on disk."""
    files = cause_files()
    document = {"digest": digest(files), "causes": [read_table(path) for path in files]}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
