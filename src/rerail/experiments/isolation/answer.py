"""The answer as the contract's `isolate --json` has it, and as `investigation.json` keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.trials.answers import keep_beside, runs_with_failure
from rerail.experiments.trials.journal import FOLDER, MOST_BYTES, TrialJournal
from rerail.store import Store, loads, read_regular

SCHEMA = 1
FILE_NAME = "investigation.json"


def answer_of(
    journal: TrialJournal,
    investigation: Investigation | None,
    ended_because: str = "",
    raised: dict[str, Any] | None = None,
) -> dict[str, Any]:
    trials = [trial.contract(journal.unit) for trial in journal.trials]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "status": "not-reproduced",
        "changes": [],
        "confidence": 0.0,
        "alternatives": [],
        "ruled_out": [],
        "trials": trials,
        "exposure_used": _total(trials, journal.unit),
        "seconds": round(journal.seconds, 1),
        "unit": journal.unit,
        "command": journal.command,
        "failure": journal.failure.to_json() if journal.failure else None,
        "reason": "",
        "ruled_out_by": {},
        "not_applicable": dict(journal.dropped),
        "posterior": [],
        "earlier_runs": list(journal.earlier_runs),
        "ended_because": ended_because,
        "reproducer": None,
        "raised": raised,
        "start": journal.start,
        "environments": list(journal.environments.values()),
    }
    if investigation is None:
        if journal.failure is None:
            document["reason"] = (
                f"the command did not fail in {len(trials)} trial{'s' * (len(trials) != 1)}"
                " without any change"
            )
        else:
            document["status"] = "inconclusive"
            document["reason"] = "the failure was seen; no change has been tried yet"
        return document
    verdict = investigation.verdict()
    document["status"] = verdict.status
    document["changes"] = list(verdict.changes)
    document["confidence"] = round(verdict.confidence, 4)
    document["alternatives"] = [list(each) for each in verdict.alternatives]
    document["ruled_out"] = [each.change for each in verdict.ruled_out]
    document["ruled_out_by"] = {each.change: each.evidence for each in verdict.ruled_out}
    document["reason"] = verdict.reason
    document["posterior"] = [
        {
            "text": likely.text,
            "changes": list(likely.changes) or likely.text,
            "probability": round(likely.probability, 4),
        }
        for likely in verdict.ranking
    ]
    return document


def investigation_answer(home: Path, key: str) -> dict[str, Any]:
    """What the investigation that a trial's settings name has found so far; empty if none is there.

    Before it has an answer: its trials, with an empty status.
    """
    if not (key.isascii() and key.isalnum()):
        return {}  # no key of ours, and perhaps a path
    try:
        document = loads(read_regular(home / FOLDER / f"{key}.json", MOST_BYTES))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    answer = document.get("answer")
    if isinstance(answer, dict):
        return answer
    return {
        "status": "",
        "trials": document.get("trials") or [],
        "command": document.get("command"),
    }


def keep_with_run(document: dict[str, Any], store: Store) -> None:
    """Beside every run that showed the failure unchanged, where their reports look for it."""
    failure = document.get("failure") or {}
    earlier = runs_with_failure(store, failure, document["earlier_runs"])
    keep_beside(document, FILE_NAME, store, {failure.get("run"), _last_crash(document), *earlier})


def _last_crash(document: dict[str, Any]) -> str | None:
    crashed = [t for t in document["trials"] if t["outcome"] == "crashed" and not t["changes"]]
    return str(crashed[-1]["run"]) if crashed else None


def _total(trials: list[dict[str, Any]], unit: str) -> float:
    total = sum(trial["exposure"] for trial in trials)
    return round(total, 3) if unit == "seconds" else int(total)
