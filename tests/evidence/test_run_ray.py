"""What Ray said of a worker becomes evidence."""

from __future__ import annotations

from typing import Any

from rerail.diagnosis import diagnose
from rerail.evidence.run.collect import collect_recorded
from rerail.evidence.run.material import RecordedRun
from rerail.records import AfterDeath, Event, Outcome, ProcessRecord, RunInfo


def worker(told: dict[str, Any], **ending: Any) -> RecordedRun:
    process = ProcessRecord(
        7, 1, 1, "main", "ray::Server", ["ray::Server"], 0.0, ended_t_seconds=9.0, **ending
    )
    kind = "signal" if process.signal else "exit" if process.exit_code else "ok"
    outcome = Outcome(
        kind,  # type: ignore[arg-type]
        f"the command ended after 9 s ({kind})",
        signal=process.signal,
        exit_code=process.exit_code,
        process="main",
    )
    info = RunInfo(
        *(1, "run", ["python"], "/tmp", 0.0, "host", "0", 1, 7, False, "ended"),
        settings={"ray": {"job": "j"}},
        outcome=outcome,
    )
    return RecordedRun(
        info,
        events=[Event(9.1, "ray", {"pid": 7, "actor": "Server", **told})],
        processes=[process],
        after=AfterDeath(machine_oom_kills=0),
    )


def test_a_kill_by_the_memory_monitor_is_no_kill_by_somebody() -> None:
    run = worker({"memory": "the node used 9GB of its 10GB"}, signal="SIGKILL")
    answer = diagnose(collect_recorded(run))
    assert answer.headline == (
        "Ray's memory monitor killed the Ray worker Server (pid 7): the node used 9GB of its 10GB."
    )
    assert answer.causes[0].id == "host-oom" and answer.causes[0].probability > 0.9


def test_without_it_somebody_sent_the_signal() -> None:
    answer = diagnose(collect_recorded(worker({}, signal="SIGKILL")))
    assert answer.causes[0].id == "killed-from-outside"
    assert "the Ray worker Server (pid 7)" in answer.headline


def test_an_actor_that_failed_in_a_process_that_ended_well_has_failed() -> None:
    told = {"exit_type": "SYSTEM_ERROR", "exit_detail": "Worker exits with an exit code 4."}
    evidence = collect_recorded(worker(told, exit_code=0))
    assert evidence.outcome.kind == "exit" and evidence.outcome.exit_code == 4
    assert evidence.outcome.summary == "The actor Server ended with exit code 4."


def test_a_worker_that_ray_ended_was_stopped() -> None:
    told = {
        "exit_type": "INTENDED_SYSTEM_EXIT",
        "exit_detail": "Worker exits. The actor was killed by `ray.kill`.",
    }
    answer = diagnose(collect_recorded(worker(told, exit_code=1)))
    assert answer.causes[0].id == "scheduler-stopped"
    assert answer.headline == (
        "Ray ended the Ray worker Server (pid 7): The actor was killed by `ray.kill`."
    )
