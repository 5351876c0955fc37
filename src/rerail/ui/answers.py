"""What each address answers, as plain values: pages and their JSON twins are both made of these.

In: the library and what was asked, already of the right type. Out: JSON values. Runs in a thread of
its own, reads only; what goes wrong and can be acted on is a RerailError.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rerail.diagnosis import diagnosis_on_record
from rerail.errors import RerailError, UnknownRun, UsageError
from rerail.experiments import investigation_answer
from rerail.platform.os_text import shown_value
from rerail.privacy import SecretRedactor
from rerail.report.experiments import INVESTIGATION, VERIFICATION, read_experiments
from rerail.report.run_list import Entry, group_of, run_entry
from rerail.store import RunFolder, encode
from rerail.ui import compare, printed, rows, series
from rerail.ui.library import Library
from rerail.ui.settings import MOST_RUNS_COMPARED

Answer = dict[str, Any]


def runs(library: Library, asked: rows.Asked) -> Answer:
    return rows.list_page(*library.listing(), asked)


def run(library: Library, run_id: str) -> Answer:
    """How a run stands, and the top of its page."""
    folder = library.folder(run_id)
    record = library.run(run_id)
    entry = run_entry(record)
    kind, key = group_of(record)
    info = record.info
    top = library.top(folder)
    standing = library.standing(folder) if info.state == "running" else None
    return {
        "schema": 1,
        "run": record.to_json(),
        "state": entry.state,
        "words": entry.words,
        "name": entry.name,
        "group": None if kind == "run" else {"kind": kind, "key": key},
        "step": entry.step,
        "elapsed_seconds": entry.elapsed_seconds,
        "has_diagnosis": diagnosis_on_record(folder) is not None,
        "top": encode(top),
        "standing": encode(standing),
    }


def details(library: Library, run_id: str) -> Answer:
    return {"schema": 1, "document": encode(library.document(library.folder(run_id)))}


def charts(library: Library, run_id: str, request: series.Request) -> Answer:
    folder = library.folder(run_id)
    return series.charts_of(folder, library.table(folder), request)


def output(library: Library, run_id: str, first: int | None, count: int) -> Answer:
    reader = library.output(library.folder(run_id))
    answer = printed.tail(reader, count) if first is None else printed.window(reader, first, count)
    return {"run": run_id, **answer}


def search(library: Library, run_id: str, words: str, first: int) -> Answer:
    if not words:
        raise UsageError("there is nothing to search for")
    return {"run": run_id, **printed.search(library.output(library.folder(run_id)), words, first)}


def comparison(library: Library, run_ids: list[str]) -> Answer:
    names = list(dict.fromkeys(run_ids))
    if not 2 <= len(names) <= MOST_RUNS_COMPARED:
        raise UsageError(f"name from two to {MOST_RUNS_COMPARED} runs to compare")
    folders = [library.folder(name) for name in names]
    infos, surroundings = [], []
    for folder in folders:
        redactor = SecretRedactor(folder.private().secrets)
        info, around = folder.info(), _surroundings(folder)
        redactor.learn_value(info)
        redactor.learn_value(around)
        redactor.finish_learning()
        infos.append(redactor.mask_value(info))
        surroundings.append(redactor.mask_value(around))
    listed = [run_entry(library.run(name)) for name in names]
    return {
        "schema": 1,
        "runs": [_short(entry) for entry in listed],
        "differences": compare.differences(infos, surroundings),
    }


def group(library: Library, kind: str, key: str) -> Answer:
    """An investigation, a verification, a study or the attempts of a run that was restarted."""
    on_record, entries = library.listing()
    by_id = {record.id: record for record in on_record}
    for entry in entries:
        row = rows.row_of(entry, by_id)
        if entry.kind == kind and key in (entry.id, row["key"]):
            cells = _cells(entry, by_id) if kind == "study" else []
            document = _document(library.home, entry, by_id)
            return {
                "schema": 1,
                "group": row,
                "command": _command(document),
                "beliefs": _beliefs(document),
                "document": document,
                "cells": cells,
            }
    raise UnknownRun(f"no {kind[:20]} {key[:80]!r} in this store", "The list has all of them.")


def _short(entry: Entry) -> Answer:
    return {
        "id": entry.id,
        "name": entry.name,
        "state": entry.state,
        "words": entry.words,
        "command": entry.command,
        "step": entry.step,
    }


def _surroundings(folder: RunFolder) -> dict[str, Any]:
    try:
        return folder.surroundings()
    except RerailError:
        return {}


def _document(home: Path, entry: Entry, by_id: dict[str, Any]) -> Answer:
    """What `isolate` or `verify` kept; empty for a study and for restarts."""
    found: Answer = {}
    if entry.kind == "isolate":
        found = investigation_answer(home, entry.id)
    elif entry.kind == "verify":
        for run_id in entry.runs:
            found = read_experiments(by_id[run_id].folder).get(VERIFICATION, {})
            if found:
                break
    redactor = SecretRedactor()
    redactor.learn_value(found)
    redactor.finish_learning()
    return shown_value(redactor.mask_value(found)) or {}


def _command(document: Answer) -> str:
    """As it would be typed; a notebook is a file that anybody may have written."""
    words = document.get("command")
    return shlex.join(str(word) for word in words) if isinstance(words, list) else ""


def _beliefs(document: Answer) -> list[Answer]:
    """What may be true, the likeliest first as the investigation has it."""
    told = document.get("posterior")
    found = []
    for each in told if isinstance(told, list) else []:
        share = each.get("probability") if isinstance(each, dict) else None
        if isinstance(share, (int, float)) and 0 <= share <= 1:
            found.append({"text": str(each.get("text") or ""), "probability": float(share)})
    return found


def document_name(kind: str) -> str:
    return INVESTIGATION if kind == "isolate" else VERIFICATION


def _cells(entry: Entry, by_id: dict[str, Any]) -> list[Answer]:
    """The grid of a study: one cell per configuration and seed, with its attempts, oldest first."""
    cells: dict[str, list[Entry]] = {}
    for member in reversed(entry.members):
        name = str(by_id[member.id].info.settings.get("cell") or member.name)
        cells.setdefault(name, []).append(member)
    return [
        {
            "name": name,
            "state": attempts[-1].state,
            "words": attempts[-1].words,
            "attempts": [_short(attempt) for attempt in attempts],
        }
        for name, attempts in sorted(cells.items())
    ]
