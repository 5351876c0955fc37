"""The list of runs as the page shows it: what passes the filters, a page of it, as plain values.

In: the rows of the store, and what somebody asked for. Out: JSON values with everything that a row
shows. A group stays while one of its runs passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from rerail import api
from rerail.report.run_list import NOT_WELL, Entry
from rerail.ui.settings import ROWS_PER_PAGE
from rerail.wording import duration_in_words

STATES = ("live", "stuck", "failed", "swallowed", "ok")
MOST_MEMBERS = 200  # of a group, in one answer


@dataclass(frozen=True)
class Asked:
    """`words` may stand anywhere in a row; the others in what they are named for."""

    words: str = ""
    state: str = ""
    cause: str = ""
    command: str = ""
    label: str = ""
    page: int = 1

    @property
    def is_all(self) -> bool:
        return not (self.words or self.state or self.cause or self.command or self.label)


def list_page(runs: api.Runs, entries: Sequence[Entry], asked: Asked) -> dict[str, Any]:
    by_id = {run.id: run for run in runs}
    found = list(entries) if asked.is_all else _passing(by_id, entries, asked)
    pages = max(1, -(-len(found) // ROWS_PER_PAGE))
    page = min(max(1, asked.page), pages)
    shown = found[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    return {
        "schema": 1,
        "home": str(runs.home),
        "counts": _counts(entries),
        "causes": sorted({run.leading_cause for run in runs if run.leading_cause}),
        "found": len(found),
        "page": page,
        "pages": pages,
        "rows": [row_of(entry, by_id) for entry in shown],
        "unreadable": [{"id": name, "why": why} for name, why in runs.unreadable[:100]],
        "problem": runs.index_problem,
    }


def row_of(entry: Entry, by_id: dict[str, api.Run]) -> dict[str, Any]:
    run = by_id.get(entry.id) if entry.kind in ("run", "restarts") else None
    started = datetime.fromtimestamp(entry.started_unix, timezone.utc)
    return {
        "id": entry.id,
        "kind": entry.kind,
        "key": entry.runs[-1] if entry.kind == "restarts" and entry.runs else entry.id,
        "state": entry.state,
        "name": entry.name,
        "words": entry.words,
        "headline": entry.headline,
        "command": entry.command,
        "step": entry.step,
        "cause": run.leading_cause if run is not None else None,
        "label": run.label if run is not None else None,
        "started_unix": entry.started_unix,
        "started": started.strftime("%Y-%m-%d %H:%M"),
        "elapsed_seconds": entry.elapsed_seconds,
        "elapsed": duration_in_words(entry.elapsed_seconds or 0.0),
        "members": [row_of(member, by_id) for member in entry.members[:MOST_MEMBERS]],
        "member_count": len(entry.members),
    }


def _counts(entries: Sequence[Entry]) -> dict[str, int]:
    leaves = [leaf for entry in entries for leaf in entry.members or (entry,)]
    return {
        "runs": len(leaves),
        "live": sum(leaf.state in ("live", "stuck") for leaf in leaves),
        "failed": sum(leaf.state in NOT_WELL for leaf in leaves),
    }


def _passing(by_id: dict[str, api.Run], entries: Sequence[Entry], asked: Asked) -> list[Entry]:
    found = []
    for entry in entries:
        if not entry.members:
            if _passes(entry, by_id.get(entry.id), asked):
                found.append(entry)
            continue
        is_named = bool(asked.words) and asked.words.lower() in f"{entry.name} {entry.id}".lower()
        rest = replace(asked, words="") if is_named else asked
        members = tuple(m for m in entry.members if _passes(m, by_id.get(m.id), rest))
        if members:
            found.append(replace(entry, members=members))
    return found


def _passes(entry: Entry, run: api.Run | None, asked: Asked) -> bool:
    cause = run.leading_cause if run is not None else None
    label = (run.label if run is not None else None) or ""
    if asked.state and not _is_in_state(entry, asked.state):
        return False
    if asked.cause and cause != asked.cause:
        return False
    if asked.label and asked.label.lower() not in label.lower():
        return False
    if asked.command and asked.command.lower() not in entry.command.lower():
        return False
    told = (entry.id, entry.name, entry.words, entry.headline, entry.command, label, cause or "")
    return all(word in " ".join(told).lower() for word in asked.words.lower().split())


def _is_in_state(entry: Entry, state: str) -> bool:
    return entry.state == state or (state == "live" and entry.state == "stuck")
