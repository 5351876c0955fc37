"""What `rerail isolate` and `rerail verify` found about this run, if anybody asked.

In: `investigation.json` and `verification.json` of the run folder, the documents of their `--json`;
of a trial, the notebook of its investigation in the store. Out: a section, or None where nothing
of that is there; and what a run that was itself a trial was for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rerail.experiments import changes_in_words, investigation_answer
from rerail.records import RunInfo
from rerail.report.document import Block, Paragraph, Section, Table
from rerail.report.numbers import without_zero_rows
from rerail.report.verdict import as_list, as_object, as_text
from rerail.store import EXPERIMENT_BYTES, DecodeError, loads, read_regular
from rerail.wording import bytes_in_words, listed, percent, seconds_in_words, short_number

INVESTIGATION, VERIFICATION = "investigation.json", "verification.json"
_MOST_TRIALS = 300
TRIAL_MARKS = ("investigation", "verification", "reference")  # in the settings of a trial's run
_SENT = "SIGTERM"  # what rerail ends a trial with once it has told enough

_STATUS_WORDS = {
    "confirmed": "Confirmed by experiment",
    "none-of-these": "The failure persists under all of the changes that were tried",
    "not-reproduced": "The failure did not come back",
    "inconclusive": "The budget ended before the experiments could decide",
}
# A trial that rerail ended itself did not die: it had told enough.
OUTCOME_WORDS = {
    "crashed": "failed",
    "finished": "clean, ended well",
    "stopped": "clean, stopped",
    "other": "died of another cause",
    "lost": "no record",
}


def read_experiments(folder: Path, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """By file name, those that are there. The run's settings say what it is a trial of."""
    found = {}
    for name in (INVESTIGATION, VERIFICATION):
        try:
            value = as_object(loads(read_regular(folder / name, EXPERIMENT_BYTES)))
        except (OSError, DecodeError):
            continue
        if value:
            found[name] = value
    key = (settings or {}).get("investigation")
    if INVESTIGATION not in found and isinstance(key, str):
        answer = investigation_answer(folder.parent.parent, key)
        if answer:
            found[INVESTIGATION] = answer
    return found


def trial_of(experiments: dict[str, Any], info: RunInfo) -> dict[str, Any]:
    """The record of this very run among the trials; empty if it is none of them."""
    for document in experiments.values():
        for kind in ("trials", "references"):
            for trial in as_list(as_object(document).get(kind)):
                if as_object(trial).get("run") == info.id:
                    return as_object(trial)
    if not any(isinstance(info.settings.get(mark), str) for mark in TRIAL_MARKS):
        return {}
    # A trial of an experiment that was begun anew, or whose notebook is gone.
    was_ended = info.outcome is not None and info.outcome.signal == _SENT
    changes = as_list(info.settings.get("changes"))
    return {"changes": changes, "outcome": "stopped"} if was_ended else {}


def was_stopped(trial: dict[str, Any]) -> bool:
    """Whether rerail ended it, because it had told enough."""
    return as_text(trial.get("outcome")) == "stopped"


def trial_in_words(trial: dict[str, Any]) -> str:
    """ "with --workers 0: clean, stopped after 22 steps"."""
    return f"{with_changes(trial)}: {trial_outcome(trial)}"


def trial_outcome(trial: dict[str, Any]) -> str:
    far = reached(trial)
    return _outcome(trial) + (f" after {far}" if far else "")


def with_changes(trial: dict[str, Any]) -> str:
    changes = [str(change) for change in as_list(trial.get("changes"))]
    return changes_in_words(changes)


def _outcome(trial: dict[str, Any]) -> str:
    said = as_text(trial.get("outcome"))
    return OUTCOME_WORDS.get(said, said)


def experiment_section(experiments: dict[str, Any], answer: str = "") -> Section | None:
    """`answer` stands above already, and is not said again."""
    found = [
        *_verification(as_object(experiments.get(VERIFICATION))),
        *_investigation(as_object(experiments.get(INVESTIGATION))),
    ]
    blocks = [b for b in found if not (answer and isinstance(b, Paragraph) and b.text == answer)]
    return Section("experiments", "Experiments", blocks) if blocks else None


def _investigation(investigation: dict[str, Any]) -> list[Block]:
    if not investigation:
        return []
    blocks: list[Block] = [Paragraph(_verdict(investigation))]
    ruled_out = [_changes(change) for change in as_list(investigation.get("ruled_out"))]
    if ruled_out:
        blocks.append(Paragraph(f"Ruled out: {listed(ruled_out)}."))
    posterior = _posterior(investigation.get("posterior"))
    if posterior:
        table = Table(["hypothesis", "probability"], posterior, "What may be true", [1])
        blocks += without_zero_rows(table)
    return [*blocks, *_trial_table("Trials", investigation.get("trials"))]


def _verification(verification: dict[str, Any]) -> list[Block]:
    """Its own sentences, the answer first; they also say what the fix costs."""
    said = [line for line in as_list(verification.get("summary")) if isinstance(line, str)]
    return [
        *(Paragraph(line) for line in said),
        *_before_and_after(verification),
        *_trial_table("Runs with the fix", verification.get("trials")),
        *_trial_table("Runs without it", verification.get("references")),
    ]


def _before_and_after(verification: dict[str, Any]) -> list[Block]:
    """What was measured on both sides of the fix; a row is there only where both are."""
    before, cost = as_object(verification.get("before")), as_object(verification.get("cost"))
    failed, survived = as_list(before.get("crashes")), as_list(before.get("survivals"))
    trials = [as_object(trial) for trial in as_list(verification.get("trials"))]
    rows = []
    if trials and (failed or survived):
        bad = sum(as_text(trial.get("outcome")) == "crashed" for trial in trials)
        runs = len(failed) + len(survived)
        rows.append(["runs that failed", f"{len(failed)} of {runs}", f"{bad} of {len(trials)}"])
    throughput, memory = as_object(cost.get("throughput")), as_object(cost.get("memory"))
    speeds = _pair(throughput, "before", "after")
    if speeds:
        rows.append(["throughput", *(f"{short_number(speed)} steps/s" for speed in speeds)])
    sizes = _pair(memory, "before_bytes", "after_bytes")
    if sizes:
        rows.append(["peak memory", *(bytes_in_words(size) for size in sizes)])
    confidence = verification.get("reached")
    if rows and isinstance(confidence, (int, float)):
        rows.append(["confidence reached", "", percent(confidence, 1)])
    columns = ["what", "before", "with the fix"]
    return [Table(columns, rows, "Before and after", [1, 2])] if rows else []


def _pair(values: dict[str, Any], *names: str) -> list[float]:
    found = [values.get(name) for name in names]
    numbers = [float(value) for value in found if isinstance(value, (int, float))]
    return numbers if len(numbers) == len(names) else []


def _trial_table(title: str, trials: object) -> list[Block]:
    rows = _trials(trials)
    columns = ["changes", "outcome", "reached", "time", "cause", "run"]
    return [Table(columns, rows, title, [2, 3], is_folded=len(rows) > 20)] if rows else []


def _verdict(investigation: dict[str, Any]) -> str:
    status = as_text(investigation.get("status"))
    text = _STATUS_WORDS.get(status, status or "An investigation without a status")
    changes = [_changes(change) for change in as_list(investigation.get("changes"))]
    if changes:
        text += f": {listed(changes)} removes the failure"
    confidence = investigation.get("confidence")
    if isinstance(confidence, (int, float)):
        text += f" (confidence {percent(confidence, 1)})"
    alternatives = [_changes(change) for change in as_list(investigation.get("alternatives"))]
    if alternatives:
        text += f"; so does {listed(alternatives, 'or')}"
    return text + "."


def _changes(value: object) -> str:
    if isinstance(value, list):
        return " with ".join(str(item) for item in value) or "nothing changed"
    return str(value)


def reached(trial: dict[str, Any]) -> str:
    """How far it came, with its unit; empty where that is not known."""
    exposure = trial.get("exposure")
    if not isinstance(exposure, (int, float)):
        return ""
    unit = as_text(trial.get("unit"))
    return f"{exposure:g} {unit.removesuffix('s') if exposure == 1 and unit != 'batches' else unit}"


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
            rows.append([name, percent(share, 1)])
    return rows


def _trials(trials: object) -> list[list[str]]:
    rows = []
    for trial in as_list(trials)[:_MOST_TRIALS]:
        trial = as_object(trial)
        seconds = trial.get("seconds")
        rows.append(
            [
                _changes(trial.get("changes", [])),
                _outcome(trial),
                reached(trial),
                seconds_in_words(seconds) if isinstance(seconds, (int, float)) else "",
                as_text(trial.get("cause")),
                as_text(trial.get("run")),
            ]
        )
    return rows
