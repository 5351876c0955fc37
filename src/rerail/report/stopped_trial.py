"""A trial that rerail ended itself, because it had told enough: it is clean, not dead.

In: the records of such a run, its diagnosis, and its entry among the trials. Out: the same without
the signal that rerail sent, so that no page calls it a death.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rerail.evidence import RecordedRun
from rerail.records import Outcome, ProcessRecord
from rerail.report.experiments import reached, with_changes
from rerail.report.verdict import facts_of

_SENT = ("SIGTERM", "SIGKILL")  # what rerail ends a run with
STOPPED = "clean, stopped by rerail"


def as_stopped(
    run: RecordedRun, diagnosis: dict[str, Any], trial: dict[str, Any]
) -> tuple[RecordedRun, dict[str, Any]]:
    far = reached(trial)
    clean = f"Clean for {far}" if far else "Clean"
    headline = f"{clean} {with_changes(trial)}, then stopped by rerail: that was enough to know."
    outcome = Outcome("ok", headline, process="main")
    told = {"kind": "ok", "signal": None, "exit_code": None, "process": "main", "summary": headline}
    facts = {
        name: value
        for name, value in facts_of(diagnosis).items()
        if name not in ("signal", "killed_from_outside", "crash_signal", "where")
    }
    return (
        replace(
            run,
            info=replace(run.info, outcome=outcome),
            processes=[_ended_by_rerail(process) for process in run.processes],
        ),
        diagnosis
        | {"headline": headline, "outcome": told, "causes": [], "facts": facts, "next": None},
    )


def _ended_by_rerail(process: ProcessRecord) -> ProcessRecord:
    return replace(process, signal=STOPPED) if process.signal in _SENT else process
