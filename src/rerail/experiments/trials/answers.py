"""What the answers of `isolate` and `verify` have in common: where they are kept, and sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rerail.errors import RerailError
from rerail.privacy import Masker
from rerail.store import RunFolder, Store, layout


def keep_beside(
    document: Mapping[str, Any], file_name: str, store: Store, runs: Iterable[str | None]
) -> None:
    """Write the document, masked, into the folders of these runs, as far as they are there."""
    text = json.dumps(Masker().mask_value(document), indent=1).encode() + b"\n"
    for name in runs:
        folder = store.runs / name if name else None
        if folder is None or not folder.is_dir():
            continue
        try:
            layout.replace_file(folder / file_name, text)
        except OSError:
            continue  # the store has the trials, and the journal of an investigation the answer


def about_outputs(document: Mapping[str, Any]) -> list[str]:
    """Where a person finds what trials wrote, if it was kept."""
    kept = document.get("outputs")
    return [f"What trials wrote is in {kept}, in a folder for each run."] if kept else []


def runs_with_failure(store: Store, failure: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Those of these runs whose records tell of this failure."""
    return [name for name in names if _showed(RunFolder(store.runs / name), failure)]


def _showed(folder: RunFolder, failure: Mapping[str, Any]) -> bool:
    """The same ending, and the same leading cause if somebody has asked for one."""
    try:
        outcome = folder.info().outcome
        causes = folder.diagnosis().get("causes")
    except RerailError:
        return False
    if outcome is None or outcome.kind == "ok":
        return False
    ending = (outcome.kind, outcome.signal, outcome.exit_code)
    if ending != tuple(failure.get(name) for name in ("kind", "signal", "exit_code")):
        return False
    leading = causes[0] if isinstance(causes, list) and causes else None
    return not isinstance(leading, dict) or leading.get("id") == failure.get("cause")
