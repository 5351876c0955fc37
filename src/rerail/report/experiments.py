"""What `rerail isolate` or `verify` proved about this run, if anybody asked.

In: `investigation.json` of the run folder, the contract's `isolate --json`. Out: a section, or None
where the file is not there or is not that document.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rerail.evidence.run_words import listed, seconds_in_words
from rerail.report.document import Block, Paragraph, Section, Table
from rerail.report.verdict import as_list, as_object, as_text

FILE_NAME = "investigation.json"
_MOST_TRIALS = 300

_STATUS_WORDS = {
    "confirmed": "Confirmed by experiment",
    "none-of-these": "The failure persists under all of the changes that were tried",
    "not-reproduced": "The failure did not come back",
    "inconclusive": "The budget ended before the experiments could decide",
    "proven": "The fix is proven",
    "refuted": "The fix is refuted",
}


def read_investigation(folder: Path) -> dict[str, Any]:
    try:
        value = json.loads((folder / FILE_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return as_object(value)


def experiment_section(investigation: dict[str, Any]) -> Section | None:
    if not investigation:
        return None
    blocks: list[Block] = [Paragraph(_verdict(investigation))]
    ruled_out = [_changes(change) for change in as_list(investigation.get("ruled_out"))]
    if ruled_out:
        blocks.append(Paragraph(f"Ruled out: {listed(ruled_out)}."))
    posterior = _posterior(investigation.get("posterior"))
    if posterior:
        blocks.append(Table(["hypothesis", "probability"], posterior, "Posterior", [1]))
    trials = _trials(investigation)
    if trials:
        columns = ["changes", "outcome", "exposure", "time", "cause", "run"]
        blocks.append(Table(columns, trials, "Trials", [2, 3], is_folded=len(trials) > 20))
    return Section("experiments", "Experiments", blocks)


def _verdict(investigation: dict[str, Any]) -> str:
    status = as_text(investigation.get("status"))
    text = _STATUS_WORDS.get(status, status or "An investigation without a status")
    changes = [_changes(change) for change in as_list(investigation.get("changes"))]
    if changes:
        text += f": {listed(changes)} removes the failure"
    confidence = investigation.get("confidence")
    if isinstance(confidence, (int, float)):
        text += f" (confidence {confidence:.1%})"
    alternatives = [_changes(change) for change in as_list(investigation.get("alternatives"))]
    if alternatives:
        text += f"; so does {listed(alternatives, 'or')}"
    return text + "."


def _changes(value: object) -> str:
    if isinstance(value, list):
        return " with ".join(str(item) for item in value) or "nothing changed"
    return str(value)


def _posterior(value: object) -> list[list[str]]:
    rows = []
    if isinstance(value, dict):
        pairs = [(str(name), share) for name, share in value.items()]
    else:
        pairs = [
            (_changes(as_object(item).get("changes", "")), as_object(item).get("probability"))
            for item in as_list(value)
        ]
    for name, share in pairs:
        if isinstance(share, (int, float)):
            rows.append([name, f"{share:.1%}"])
    return rows


def _trials(investigation: dict[str, Any]) -> list[list[str]]:
    rows = []
    for trial in as_list(investigation.get("trials"))[:_MOST_TRIALS]:
        trial = as_object(trial)
        seconds = trial.get("seconds")
        exposure = trial.get("exposure")
        rows.append(
            [
                _changes(trial.get("changes", [])),
                as_text(trial.get("outcome")),
                f"{exposure} {as_text(trial.get('unit'))}".strip() if exposure is not None else "",
                seconds_in_words(seconds) if isinstance(seconds, (int, float)) else "",
                as_text(trial.get("cause")),
                as_text(trial.get("run")),
            ]
        )
    return rows
