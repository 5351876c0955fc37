"""Whose run it was and which secrets stand in its records, told to a redactor.

In: a run's records, a redactor. Out: the redactor knows the names and secrets in them, before the
first text is masked. What leaves the machine of a run (a package, a question) begins here.
"""

from __future__ import annotations

from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.privacy import Redactor


def learn_records(redactor: Redactor, run: RecordedRun) -> None:
    redactor.names.add_environment(_as_object(run.surroundings.get("environment")))
    redactor.names.add_host(run.info.host)
    host = _as_object(run.surroundings.get("system")).get("host")
    if isinstance(host, str):
        redactor.names.add_host(host)
    for part in _texts_of(run):
        redactor.learn_value(part)


def _texts_of(run: RecordedRun) -> list[Any]:
    """The parts of a run that hold texts; vitals are numbers."""
    return [
        run.info,
        run.surroundings,
        [event.data for event in run.events],
        run.processes,
        run.boxes,
        run.crashes,
        run.libraries,
        run.stalls,
        run.after,
        run.missing,
    ]


def _as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
