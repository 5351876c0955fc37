"""Every finding foretells a cause that the catalogue knows, by the catalogue's own word."""

from __future__ import annotations

import re
from pathlib import Path

import rerail.preflight
from rerail.catalogue import load_catalogue
from rerail.preflight.audit.known import load

ROOM = Path(rerail.preflight.__file__).parent


def test_ids_of_findings_are_ids_of_causes() -> None:
    known = set(load_catalogue().causes)
    used = set()
    for path in ROOM.rglob("*.py"):
        used |= set(re.findall(r'Finding\(\s*"([a-z0-9-]+)"', path.read_text(encoding="utf-8")))
    for name in ("compatibility", "variables"):
        for entries in load(name).values():
            used |= {entry["id"] for entry in entries if "id" in entry}
    assert len(used) > 15
    assert used - known == set()
