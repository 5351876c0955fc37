"""Why a driver of Ray died: because a worker did, which another recorder has on record.

`rerail.ray.runtime_env` makes every worker a run in the driver's store (docs/ray.md). Ray's
exception in the driver names the worker's process and guesses at its end; that record knows.

In: a driver's run and its evidence. Out: the evidence with the worker's own observations and facts,
where such a worker is on record; else the evidence as it was. Only what can be seen in the worker's
record by the number of its process is taken: lines of its output have numbers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rerail.errors import RerailError
from rerail.evidence.first.ray import who_failed_first
from rerail.platform.patterns import linear
from rerail.records import Evidence, Observation, RunInfo
from rerail.store import RunFolder, Store

_PID = linear(r"\bpid(?:=|: ?)(\d{1,10})\b|Worker PID: (\d{1,10})")
# A RayTaskError is an exception of the worker's code, with its traceback: nobody died.
OF_RAY = ("ray.exceptions", "ray.train", "ray.tune")
_RAISED_BY_CODE = linear(r"^ray\.exceptions\.RayTaskError\b")
_SAYS_DIED = linear(r"(?i)\bdied\b|\bdead\b|\bcrashed\b|\bkilled\b|out ?of ?memory|exit type")
_MOST_CHARS = 100_000
_SLACK_SECONDS = 2.0  # between the clock readings of two recorders
_BY_PROCESS = ("exit:", "stack:", "box:", "kernel:", "vitals:", "maps:", "cgroup")
_HOW_IT_ENDED = ("crash", "crash-unrecorded", "oom-kill", "ended-by-ray")
_OF_THE_WHOLE_RUN = ("history", "missing")
_OF_ITS_PROGRAM = ("script", "python", "uses", "elapsed_seconds")

CollectRun = Callable[[RunFolder], Evidence]


def pids_in(words: Iterable[str]) -> list[int]:
    """Of the workers that an exception of Ray's is about, in the order in which it names them."""
    found: dict[int, None] = {}
    for each in words:
        for match in _PID.finditer(each[:_MOST_CHARS]):
            found.setdefault(int(match[1] or match[2]))
    return list(found)


def with_worker_of_ray(driver: RunFolder, evidence: Evidence, collect: CollectRun) -> Evidence:
    text = str(evidence.facts.get("exception_text") or "")
    if not text.startswith(OF_RAY) or _RAISED_BY_CODE.search(text) or not _SAYS_DIED.search(text):
        return evidence
    try:
        worker = who_failed_first(_workers_of(driver), pids_in([text]))
        told = collect(worker) if worker is not None else None
    except RerailError:  # a record that cannot be read leaves Ray's own words
        return evidence
    if worker is None or told is None:
        return evidence
    seen = [_as_of_a_worker(o) for o in told.observations if o.source.startswith(_BY_PROCESS)]
    if not any(_says_how_it_ended(o) for o in seen):
        failure = _failure_of_an_actor(worker.info(), told)
        if not failure:
            return evidence
        seen += failure
    own = [o for o in evidence.observations if o.kind in _OF_THE_WHOLE_RUN]
    facts = {name: fact for name, fact in told.facts.items() if name not in _OF_ITS_PROGRAM}
    kept = {name: evidence.facts[name] for name in _OF_ITS_PROGRAM if name in evidence.facts}
    kept["run"] = worker.id.rpartition("-")[2]  # what a remedy says to look at is there
    return replace(evidence, observations=[*seen, *own], facts={**facts, **kept})


def _as_of_a_worker(observation: Observation) -> Observation:
    """In its own record it is the main process; in the driver's it is one that the driver uses."""
    if observation.kind != "death" or not observation.data.get("is_main"):
        return observation
    return replace(
        observation, data={**observation.data, "is_main": False, "role": "multiprocessing"}
    )


def _failure_of_an_actor(worker: RunInfo, told: Evidence) -> list[Observation]:
    """Ray's process may exit with 0 although the actor failed: what Ray said of it, as an end."""
    if told.outcome is None or not told.outcome.exit_code:
        return []
    data = {"pid": worker.root_pid, "role": "multiprocessing", "is_main": False}
    data |= {"exit_code": told.outcome.exit_code, "signal": None}
    if actor := told.facts.get("ray_actor"):
        data["name"] = f"ray::{actor}"  # as Ray titles its process
    return [Observation("death", told.outcome.summary, f"exit:{worker.root_pid}", data)]


def _workers_of(driver: RunFolder) -> list[RunFolder]:
    """The workers in the driver's store that lived while it did, if all are of one job of Ray's."""
    info = driver.info()
    found = [run for run in workers_in(driver.path.parent.parent) if _lived_with(info, run.info())]
    jobs = {run.info().settings["ray"].get("job") for run in found}
    return found if len(jobs) == 1 else []


def workers_in(home: Path, job: str | None = None) -> list[RunFolder]:
    """The workers on record there, oldest first; of one call of `runtime_env` if `job` names it."""
    found = []
    for summary in Store(home).listing().summaries:
        about = summary.info.settings.get("ray")
        if isinstance(about, dict) and (job is None or about.get("job") == job):
            found.append(RunFolder(summary.path))
    return sorted(found, key=lambda run: run.path.name)


def _lived_with(driver: RunInfo, worker: RunInfo) -> bool:
    began = worker.started_unix - driver.started_unix
    return -_SLACK_SECONDS <= began <= (driver.elapsed_seconds or 0.0) + _SLACK_SECONDS


def _says_how_it_ended(observation: Observation) -> bool:
    data = observation.data
    if observation.kind == "death":
        return bool(data.get("signal") or data.get("exit_code"))
    return observation.kind in _HOW_IT_ENDED
