"""The metrics of a run that is over, with the cause of its death if one was found.

In: a run folder, and whether it died. Out: what `--metrics-file` is to say from then on.
"""

from __future__ import annotations

from rerail.diagnosis import answer_on_record
from rerail.recorder import Metrics, limits_of
from rerail.report.ending_line import last_step_and_loss
from rerail.store import RunFolder


def last_metrics(folder: RunFolder, *, died: bool) -> Metrics:
    info = folder.info()
    machine: dict[str, float] = {}
    for row in folder.recent_vitals():
        machine.update(row.machine)  # a row names only what has changed
    step, loss = last_step_and_loss(folder)
    leading = answer_on_record(folder).leading if died else None
    outcome = info.outcome
    how = (outcome.signal or f"exit {outcome.exit_code}") if outcome is not None else "unknown"
    return Metrics(
        info.id,
        "died" if died else "ended",
        label=str(info.settings.get("label") or ""),
        started_unix=info.started_unix,
        step=step,
        loss=loss,
        memory_bytes=0,
        processes=0,
        limits=limits_of(machine),
        outcome=how,
        cause=leading.id if leading is not None else "",
    )
