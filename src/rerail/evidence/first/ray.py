"""Which of Ray's workers failed first, by the records of their own recorders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.first.model import Actor, ActorStanding
from rerail.evidence.first.rules import Scene
from rerail.evidence.first.words import how_it_ended
from rerail.store import RunFolder


def who_failed_first(workers: Sequence[RunFolder], pids: Sequence[int]) -> RunFolder | None:
    """Of the processes that the error names, or of all: the first that ended badly by itself."""
    named = [run for run in workers if run.info().root_pid in pids] if pids else workers
    verdict = Scene([_standing(run) for run in named]).verdict()
    if verdict is not None and verdict.first is not None:
        return verdict.first.source
    return named[-1] if pids and named else None


def words_of_ray(run: RunFolder) -> list[dict[str, Any]]:
    """The last thing that a worker's recorder writes."""
    return [event.data for event in run.events() if event.kind == "ray"]


def _standing(run: RunFolder) -> ActorStanding[RunFolder]:
    info = run.info()
    has_failed = info.outcome is not None and info.outcome.kind != "ok"
    # Once one worker has failed, Ray ends the others.
    told = words_of_ray(run) if has_failed else []
    return ActorStanding(
        Actor("worker", f"worker (pid {info.root_pid})"),
        run,
        how=how_it_ended(info.outcome.signal) if info.outcome is not None and has_failed else "",
        t=info.started_unix + (info.elapsed_seconds or 0.0),
        was_ended=any(str(data.get("exit_type", "")).startswith("INTENDED") for data in told),
    )
