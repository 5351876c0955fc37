"""A trial that rerail ended itself, because it had told enough: it is clean, not dead.

In: the records of such a run, its diagnosis, and its entry among the trials. Out: the same without
the signal that rerail sent, so that no page calls it a death.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.diagnosis import Diagnosis
from rerail.evidence import RecordedRun
from rerail.live import Snapshot
from rerail.records import Outcome, ProcessRecord, RunInfo
from rerail.report.experiments import (
    TRIAL_MARKS,
    reached,
    read_experiments,
    trial_of,
    was_stopped,
    with_changes,
)

_SENT = ("SIGTERM", "SIGKILL")  # what rerail ends a run with
STOPPED = "clean, stopped by rerail"


def as_stopped(
    run: RecordedRun, diagnosis: Diagnosis, trial: dict[str, Any]
) -> tuple[RecordedRun, Diagnosis]:
    headline = stopped_headline(trial)
    outcome = Outcome("ok", headline, process="main")
    return (
        replace(
            run,
            info=replace(run.info, outcome=outcome),
            processes=without_rerails_signal(run.processes),
        ),
        diagnosis_of_stopped(diagnosis, headline),
    )


def stopped_headline(trial: dict[str, Any]) -> str:
    far = reached(trial)
    clean = f"Clean for {far}" if far else "Clean"
    return f"{clean} {with_changes(trial)}, then stopped by rerail: that was enough to know."


def headline_if_stopped(folder: Path, info: RunInfo) -> str | None:
    """What to say of a run that is a trial which rerail stopped; None of any other run."""
    if not any(isinstance(info.settings.get(mark), str) for mark in TRIAL_MARKS):
        return None
    trial = trial_of(read_experiments(folder, info.settings), info)
    return stopped_headline(trial) if was_stopped(trial) else None


def calm(folder: Path, snapshot: Snapshot) -> Snapshot:
    """The picture of a run, clean where rerail stopped it."""
    info = snapshot.info
    clean = headline_if_stopped(folder, info) if info.state == "ended" else None
    if clean is None:
        return snapshot
    return replace(
        snapshot,
        info=replace(info, outcome=Outcome("ok", clean, process="main")),
        processes=without_rerails_signal(snapshot.processes),
        diagnosis=None,
    )


def diagnosis_of_stopped(diagnosis: Diagnosis, headline: str) -> Diagnosis:
    """The diagnosis without what it says of the signal that rerail sent."""
    facts = {
        name: value
        for name, value in diagnosis.facts.items()
        if name not in ("signal", "killed_from_outside", "crash_signal", "where")
    }
    return replace(
        diagnosis,
        headline_on_record=headline,
        outcome=Outcome("ok", headline, process="main"),
        candidates=(),
        facts=facts,
        next_step=None,
    )


def without_rerails_signal(processes: Sequence[ProcessRecord]) -> list[ProcessRecord]:
    return [_ended_by_rerail(process) for process in processes]


def _ended_by_rerail(process: ProcessRecord) -> ProcessRecord:
    return replace(process, signal=STOPPED) if process.signal in _SENT else process
