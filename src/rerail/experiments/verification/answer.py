"""The answer of a verification: the document of `verify --json`, and its sentences.

`proven`: the probability that the clean stretch is luck is below what was asked. `refuted`: the
failure came although the fix was at work. `not-proven`: neither, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rerail.experiments.trials.answers import about_outputs, keep_beside, runs_with_failure
from rerail.experiments.trials.exposure import Unit, exposure_in_words
from rerail.experiments.trials.failure import lack_of
from rerail.experiments.trials.start import about_the_start
from rerail.experiments.trials.trial import Trial
from rerail.experiments.verification.cost import Cost, compare
from rerail.experiments.verification.trace import read_trace
from rerail.store import Store
from rerail.wording import LEAST, counted, listed, percent, seconds_in_words

if TYPE_CHECKING:
    from rerail.experiments.verification.session import VerificationSession

SCHEMA = 1
FILE_NAME = "verification.json"
_MOST_TRACES = 4


def answer_of(session: VerificationSession, seconds: float) -> dict[str, Any]:
    known = session.baseline
    unit: Unit = known.unit if known else "seconds"
    status = "refuted" if session.is_refuted else "proven" if session.is_proven else "not-proven"
    if any(each.trial.not_applied for each in session.tried):
        status = "not-proven"
    cost = _cost(session)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "status": status,
        "changes": [change.text for change in session.changes],
        "confidence": session.options.confidence,
        "reached": round(1.0 - session.luck, 4),
        "unit": unit,
        "command": list(session.command),
        "failure": known.failure.to_json() if known else None,
        "before": _before(session),
        "needed": _needed(session),
        "trials": [each.trial.contract(unit) for each in session.tried],
        "references": [each.trial.contract(unit) for each in session.references],
        "clean": sum(session.clean()) if known else 0,
        "cost": cost.to_json(),
        "seconds": round(seconds, 1),
        "ended_because": session.ended_because,
        "start": session.start.to_json() if session.start else None,
        "outputs": session.outputs,
    }
    document["summary"] = _summary(document, cost)
    return document


def _before(session: VerificationSession) -> dict[str, Any] | None:
    known = session.baseline
    if known is None:
        return None
    model = known.model(can_repeat=bool(session.changes))
    return {
        "runs": [folder.id for folder in known.runs],
        "crashes": known.crashes,
        "survivals": known.survivals,
        "pattern": model.kind,
        "findings": [{"text": f.text, "p_value": f.p_value} for f in model.findings],
    }


def _needed(session: VerificationSession) -> dict[str, Any] | None:
    needed, known = session.needed, session.baseline
    if needed is None or known is None:
        return None
    seconds = known.seconds_for(needed.exposure, needed.runs)
    return {
        "exposure": needed.exposure,
        "runs": needed.runs,
        "reason": needed.reason,
        "seconds": None if seconds is None else round(seconds, 1),
    }


def _cost(session: VerificationSession) -> Cost:
    known = session.baseline
    if known is None:
        return Cost()
    seen = {each.trace.run: each.trace for each in session.references}
    tried = [each.trace for each in session.tried if each.folder]
    died_of = _lack_died_of([each.trial for each in session.tried])
    if session.start is not None and session.start.state == "adopted":
        # Steps count from the checkpoint: those of runs from the beginning are others.
        alike = [each.trace for each in session.references if each.trial.checkpoint]
        return compare(alike, tried, died_of)
    before = [seen.get(f.id) or read_trace(f) for f in known.runs[:_MOST_TRACES]]
    return compare(before, tried, died_of)


def _lack_died_of(trials: Sequence[Trial]) -> str | None:
    """The cause of the last death of a lack of memory, or of something alike, with the fix."""
    died = [lack_of(trial.cause) for trial in trials if trial.outcome in ("crashed", "other")]
    return next(filter(None, reversed(died)), None)


def _summary(document: dict[str, Any], cost: Cost) -> list[str]:
    """Whole sentences, the answer first."""
    unit = document["unit"]
    fix = " and ".join(document["changes"]) or "the program as it is now"
    clean = exposure_in_words(document["clean"], unit)
    luck = percent(max(LEAST, 1.0 - document["reached"]), 1)
    lines = []
    if document["status"] == "refuted":
        crash = next(t for t in document["trials"] if t["outcome"] == "crashed")
        where = exposure_in_words(crash["exposure"], unit)
        lines.append(f"Refuted: with {fix} the same failure came after {where}.")
    elif document["status"] == "proven":
        asked = document["confidence"]
        lines.append(
            f"Proven to {percent(asked, 1)}: with {fix} it stayed clean for {clean}. Without"
            f" the fix, a run stays clean for that long by luck in {luck} of cases."
        )
    else:
        lines.append(f"Not proven: {document['ended_because'] or 'not enough was seen'}.")
        if document["clean"]:
            lines.append(
                f"With {fix} it stayed clean for {clean}, which happens by luck"
                f" in {luck} of cases. Type the same command again to go on from here."
            )
    lines += _before_words(document)
    lines += about_the_start(document)
    lines += about_outputs(document)
    if document["trials"]:
        lines += cost.lines(has_steps=unit == "steps")
    count = counted(len(document["trials"]) + len(document["references"]), "run")
    lines.append(f"{count}, {seconds_in_words(document['seconds'])}; `rerail runs` lists them.")
    return lines


def _before_words(document: dict[str, Any]) -> list[str]:
    before, failure = document["before"], document["failure"]
    if before is None or failure is None:
        return []
    at = listed([exposure_in_words(each, document["unit"]) for each in before["crashes"][:6]])
    cause = f" ({failure['cause']})" if failure["cause"] else ""
    runs = counted(len(before["crashes"]) + len(before["survivals"]), "run")
    lines = [f"Before: {failure['summary']}{cause}; in {runs}, failed after {at}."]
    if document["needed"] and document["status"] != "refuted":
        reason = document["needed"]["reason"]
        lines.append(f"{reason[:1].upper()}{reason[1:]}.")
    return lines


def keep_with_run(document: dict[str, Any], store: Store) -> None:
    """Beside every run that showed the failure, and beside those that were made to test the fix."""
    failure = document["failure"] or {}
    before = runs_with_failure(store, failure, (document["before"] or {}).get("runs", ()))
    tried = (*document["trials"], *document["references"])
    names = {failure.get("run"), *before, *(trial["run"] for trial in tried)}
    keep_beside(document, FILE_NAME, store, names)
