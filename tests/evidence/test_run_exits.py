from __future__ import annotations

import pytest
from run_builders import box, crash, info, process, recorded

from rerail.evidence.run.crashes import read_crashes
from rerail.evidence.run.exits import (
    MOST_DEATHS,
    read_deaths,
    read_outcome,
    read_outside_signals,
)
from rerail.records import Event, Outcome

OK = Outcome("ok", "It finished.", exit_code=0, process="main")


def test_a_worker_that_died_while_the_main_process_exited_0_was_swallowed():
    main = process(exit_code=0, ended_t_seconds=90.0)
    worker = process(101, "child", signal="SIGSEGV", ended_t_seconds=30.0)
    (death,) = read_deaths(
        recorded(OK, processes=[main, worker], boxes=[box(101, optimizer_steps=40)])
    )
    assert death.data["was_swallowed"] and death.data["was_training"]
    assert death.data["went_on_seconds"] == 60.0
    assert death.source == "exit:101"
    assert "SIGSEGV" in death.text and "60 s" in death.text and "exited 0" in death.text


def test_a_helper_is_told_from_a_training_child():
    main = process(exit_code=0)
    helper = process(102, "multiprocessing", signal="SIGABRT", ended_t_seconds=5.0)
    (death,) = read_deaths(recorded(OK, processes=[main, helper]))
    assert death.data["was_swallowed"] and not death.data["was_training"]


@pytest.mark.parametrize(
    ("signal", "ended", "is_tidying"),
    [
        ("SIGTERM", 60.1, True),
        ("SIGKILL", 60.0, True),
        ("SIGSEGV", 60.1, False),
        ("SIGTERM", 58.0, True),
        ("SIGKILL", 20.0, False),
    ],
)
def test_workers_that_go_with_their_parent_are_tidying(signal, ended, is_tidying):
    main = process(exit_code=1, ended_t_seconds=60.0)
    worker = process(101, "loader-worker", signal=signal, ended_t_seconds=ended)
    deaths = {d.data["pid"]: d for d in read_deaths(recorded(processes=[main, worker]))}
    assert deaths[101].data["is_tidying"] is is_tidying
    assert not deaths[100].data["is_tidying"]


def test_a_crash_record_tells_a_death_whose_status_somebody_else_took():
    main = process(exit_code=0)
    child = process(101, "child", ended_t_seconds=None)
    (death,) = read_deaths(recorded(OK, processes=[main, child], crashes=[crash(101)]))
    assert death.data["signal"] == "SIGSEGV" and death.data["source"] == "crash"


def test_two_thousand_dead_workers_keep_the_main_process_and_the_signals():
    many = [process(1000 + i, "child", exit_code=1, ended_t_seconds=float(i)) for i in range(2000)]
    killed = process(5000, "child", signal="SIGKILL", ended_t_seconds=3000.0)
    main = process(exit_code=1, ended_t_seconds=4000.0)
    deaths = read_deaths(recorded(processes=[*many, killed, main]))
    assert len(deaths) == MOST_DEATHS
    assert {100, 5000} <= {d.data["pid"] for d in deaths}


def test_the_end_of_a_lost_run_is_not_invented():
    lost = recorded(info=info(None, state="lost"), processes=[process(ended_t_seconds=None)])
    assert read_outcome(lost).kind == "unknown"
    told = recorded(info=info(None, state="lost"), processes=[process(signal="SIGKILL")])
    assert (read_outcome(told).kind, read_outcome(told).signal) == ("signal", "SIGKILL")
    assert read_outcome(recorded(info=info(None, state="running"))).kind == "unknown"


def test_a_forwarded_signal_names_its_sender_and_a_resize_is_none():
    events = [
        Event(1.0, "signal-forwarded", {"signal": "SIGWINCH"}),
        Event(
            6.0,
            "signal-forwarded",
            {"signal": "SIGTERM", "sender_pid": 9, "sender_name": "slurmstepd"},
        ),
    ]
    main = process(signal="SIGTERM")
    (seen,) = read_outside_signals(recorded(processes=[main], events=events))
    assert seen.data["sender_name"] == "slurmstepd" and "slurmstepd" in seen.text


@pytest.mark.parametrize(
    "sender, said", [(9, "process 9"), (0, "cannot be seen"), (101, "process 101 (python)")]
)
def test_a_crash_signal_that_another_process_sent_is_no_crash(sender: int, said: str) -> None:
    run = recorded(
        processes=[process(signal="SIGSEGV"), process(101, "child")],
        crashes=[crash(code="SI_USER", address=None, sender_pid=sender)],
    )
    (seen,) = read_outside_signals(run)
    assert seen.data["signal"] == "SIGSEGV" and said in seen.text
    assert read_crashes(run) == []


def test_a_process_that_sends_a_signal_to_itself_has_crashed() -> None:
    run = recorded(
        processes=[process(signal="SIGABRT")],
        crashes=[crash(signal="SIGABRT", code="SI_TKILL", sender_pid=100)],
    )
    assert read_outside_signals(run) == []
    assert [o.kind for o in read_crashes(run)] == ["crash"]


def test_sigterm_on_the_main_process_came_from_outside_but_not_when_rerail_ended_a_hang():
    main = process(signal="SIGTERM")
    (seen,) = read_outside_signals(recorded(processes=[main]))
    assert seen.data["signal"] == "SIGTERM" and "outside" in seen.text
    hang = Outcome("hang", "No progress.", signal="SIGTERM")
    assert read_outside_signals(recorded(hang, processes=[main])) == []


def test_a_program_that_was_gone_before_it_had_a_name_is_no_failed_worker() -> None:
    """`git rev-parse` outside of a repository: a fork of the main process for some milliseconds."""
    main = process(exit_code=1, ended_t_seconds=9.0)
    brief = process(
        101,
        "multiprocessing",
        parent_pid=100,
        started_t_seconds=3.1,
        ended_t_seconds=3.11,
        exit_code=128,
    )
    seen = read_deaths(recorded(processes=[main, brief], boxes=[box(100)]))
    assert [death.data["pid"] for death in seen] == [100]
    with_box = read_deaths(recorded(processes=[main, brief], boxes=[box(100), box(101)]))
    assert [death.data["pid"] for death in with_box] == [101, 100]
