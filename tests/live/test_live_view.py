"""How a run stands: pure pictures of live, ended and lost runs, and the screen they give."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from rerail.catalogue import load_catalogue
from rerail.diagnosis import Candidate, Diagnosis, NextStep
from rerail.live import LiveView, Snapshot, build, readable
from rerail.records import (
    BlackBox,
    Event,
    Outcome,
    PrintedPoint,
    ProcessRecord,
    ProcessVitals,
    RunInfo,
    StepPoint,
    VitalsRow,
)
from rerail.report.live_screen import render, sparkline, status_line

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

MIB = 1 << 20
GIB = 1 << 30


def an_info(**changes: Any) -> RunInfo:
    values: dict[str, Any] = {
        "schema": 1,
        "id": "20261115-232550-a3f1",
        "command": ["python", "train.py", "--accum", "4"],
        "cwd": "/data",
        "started_unix": 1.0,
        "host": "h",
        "rerail_version": "0",
        "recorder_pid": 1,
        "root_pid": 2,
        "has_terminal": False,
        "state": "running",
    }
    return RunInfo(**{**values, **changes})


def a_box(**changes: Any) -> BlackBox:
    values: dict[str, Any] = {
        "pid": 100,
        "start_ticks": 5,
        "parent_pid": 1,
        "python_version": "3.11",
        "argv": ["train.py"],
        "started_t_seconds": 0.1,
        "said_goodbye": False,
        "handler_installed": True,
        "optimizer_steps": 200,
        "loss": 0.5,
        "history": [StepPoint(i, i * 0.5, 2.0 / (i + 1)) for i in range(200)],
        "last_progress_t_seconds": 99.5,
    }
    return BlackBox(**{**values, **changes})


def a_process(pid: int, role: str = "main", **changes: Any) -> ProcessRecord:
    return ProcessRecord(pid, 5, 1, role, "python", ["python"], 0.0, **changes)


def memory_rows(
    rss_bytes: list[int], limit_bytes: int | None = None, start: float = 20.0
) -> list[VitalsRow]:
    rows = []
    for i, size in enumerate(rss_bytes):
        vitals = ProcessVitals(rss_anon_bytes=size, cpu_seconds=i * 0.5)
        machine: dict[str, float] = {"total_bytes": 16 * GIB, "available_bytes": 12 * GIB}
        if limit_bytes:
            machine |= {"cgroup_usage_bytes": size, "cgroup_limit_bytes": limit_bytes}
        rows.append(VitalsRow(start + i, 1.0, vitals, 1, {"100-5": vitals}, machine))
    return rows


def drawn(view: LiveView, width: int = 80, height: int = 24) -> list[str]:
    screen = Console(file=io.StringIO(), width=width, height=height, no_color=True)
    screen.print(render(view, width, height))
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue().splitlines()


def test_a_live_run_with_everything() -> None:
    rows = memory_rows([1 * GIB + i * 10 * MIB for i in range(60)], 2 * GIB)
    view = build(
        Snapshot(
            info=an_info(),
            now_seconds=100.0,
            processes=[
                a_process(100),
                a_process(101, "loader-worker", ended_t_seconds=5.0, signal="SIGKILL"),
            ],
            boxes=[a_box(progress_text="Training 472/1122", epoch=2, phase="backward")],
            vitals=rows,
            recent=rows[-30:],
            printed=[b"start\n", b"\r 1%| | 1/9\r\x1b[31mloss 0.4\x1b[0m"],
        )
    )
    assert view.headline == "running for 1 min 40 s"
    assert view.progress is not None
    assert (view.progress.done, view.progress.total) == (472, 1122)
    assert view.progress.steps_per_second == pytest.approx(2.0)
    assert view.progress.eta_seconds == pytest.approx(650 / 2.0)
    assert view.loss is not None
    assert (view.loss.latest, view.loss.direction) == (0.5, "falling")
    memory = view.memory
    assert memory is not None
    assert (memory.limit_name, memory.limit_bytes) == ("cgroup", 2 * GIB)
    assert memory.growth_bytes_per_second == pytest.approx(10 * MIB, rel=0.05)
    assert memory.seconds_to_limit == pytest.approx((GIB - 590 * MIB) / (10 * MIB), rel=0.1)
    assert [line.pid for line in view.processes] == [101, 100]
    assert view.processes[1].cpu_percent == pytest.approx(50.0)
    assert view.output == ["start", "loss 0.4"]
    text = "\n".join(drawn(view))
    for part in ("472/1,122", "epoch 2", "backward", "2 steps/s", "5 min 25 s to go", "falling",
                 "cgroup", "growing 10 MiB/s", "full in", "SIGKILL", "0.4"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize(
    "sizes",
    [
        [GIB] * 60,
        [GIB + (i % 2) * 5 * MIB for i in range(60)],
        [GIB + min(i, 10) * 50 * MIB for i in range(60)],
    ],
    ids=["flat", "breathing", "came to rest"],
)
def test_no_limit_is_foretold_where_memory_does_not_keep_growing(sizes: list[int]) -> None:
    view = build(
        Snapshot(an_info(), 100.0, vitals=memory_rows(sizes, 2 * GIB))
    )  # fmt: skip
    assert view.memory is not None
    assert view.memory.growth_bytes_per_second is None
    assert view.memory.seconds_to_limit is None


def test_the_nearest_limit_is_shown() -> None:
    view = build(Snapshot(an_info(), 30.0, vitals=memory_rows([100 * MIB] * 3, 8 * GIB)))
    assert view.memory is not None
    assert view.memory.limit_name == "RAM"  # 4 of 16 GiB are used; of the cgroup hardly any


def test_a_progress_bar_tells_where_no_hook_does() -> None:
    bar = b"Training:  42%|####2     | 472/1122 [02:10<03:00,  3.61it/s, loss=0.3]"
    view = build(Snapshot(an_info(), 130.0, printed=[bar]))
    progress = view.progress
    assert progress is not None
    assert (progress.done, progress.total, progress.eta_seconds) == (472, 1122, 180.0)
    assert progress.rate_text == "3.61 it/s"
    assert "3 min 0 s to go" in "\n".join(drawn(view))


def test_a_bar_of_epochs_keeps_its_own_estimate() -> None:
    bar = b"epochs:  30%|###       | 3/10 [10:00<23:20, 200.00s/it]"
    view = build(Snapshot(an_info(), 600.0, boxes=[a_box()], printed=[bar]))
    assert view.progress is not None
    assert view.progress.eta_seconds == 23 * 60 + 20


def test_of_several_ranks_the_first_that_keeps_pace_tells() -> None:
    boxes = [a_box(pid=100 + r, rank=r, optimizer_steps=200 - (r == 2) * 40) for r in range(3)]
    view = build(Snapshot(an_info(), 100.0, boxes=boxes[::-1]))
    assert view.progress is not None
    assert view.progress.rank == 0
    assert view.progress.slowest_step == 160


def test_a_rank_whose_box_is_damaged_has_no_pace() -> None:
    """Its history tells of steps that its counter does not know."""
    history = [StepPoint(i, float(i), 1.0) for i in range(60)]
    box = a_box(rank=0, optimizer_steps=0, collective_count=3, history=history)
    view = build(Snapshot(an_info(), 60.0, processes=[a_process(100, rank=0)], boxes=[box]))
    (line,) = view.processes
    assert line.step_seconds is None


def test_a_loss_that_is_not_finite_is_said() -> None:
    history = [StepPoint(i, float(i), 1.0 if i < 50 else math.nan) for i in range(60)]
    box = a_box(loss=math.nan, history=history, first_nonfinite_step=50)
    lines = drawn(build(Snapshot(an_info(), 60.0, boxes=[box])))
    assert any("not finite since step 50" in line for line in lines)


def test_a_dead_run_tells_how_it_ended_and_why() -> None:
    outcome = Outcome("signal", "main died of SIGSEGV after 3 min", "SIGSEGV", None, "main")
    view = build(
        Snapshot(
            an_info(state="ended", outcome=outcome, elapsed_seconds=180.0),
            180.0,
            processes=[a_process(100, signal="SIGSEGV", dumped_core=True, ended_t_seconds=180.0)],
            boxes=[a_box()],
            diagnosis=Diagnosis(outcome, (Candidate(load_catalogue()["native-segfault"], 0.91),)),
        )
    )
    assert view.is_bad
    assert view.progress is not None
    assert view.progress.eta_seconds is None
    text = "\n".join(drawn(view))
    for part in ("main died of SIGSEGV", "native-segfault (91 %)", "SIGSEGV, core", "step 200"):
        assert part in text


def test_an_attempt_tells_its_place_in_the_story_and_a_run_its_warnings() -> None:
    settings = {"attempt": 2, "previous_run": "r1", "resumed_from": "w/3.pt", "changes": ["A=1"]}
    warnings = [{"title": "A=0 hides a fault", "level": "risky"}]
    text = "\n".join(
        drawn(build(Snapshot(an_info(settings=settings), 9.0, surroundings={"warnings": warnings})))
    )
    assert "attempt 2, after r1, from w/3.pt, with A=1" in text
    assert "A=0 hides a fault (risky)" in text


def test_a_lost_run_says_when_it_was_last_seen() -> None:
    view = build(Snapshot(an_info(state="lost", elapsed_seconds=75.0), 75.0, [a_process(100)]))
    assert view.headline == "lost: its recorder was killed; last seen after 1 min 15 s"
    assert view.processes[0].state == "not seen to end"


def test_a_stall_is_said_until_it_is_over() -> None:
    stall = Event(50.0, "stall", {"silent_seconds": 30.0})
    over = Event(80.0, "stall-over", {"silent_seconds": 60.0})
    stalled = build(Snapshot(an_info(), 110.0, events=[stall]))
    assert stalled.stalled_seconds == 90.0
    assert "no progress for 1 min 30 s" in stalled.headline
    assert build(Snapshot(an_info(), 110.0, events=[stall, over])).stalled_seconds is None


def test_a_run_that_has_just_begun() -> None:
    view = build(Snapshot(an_info(), 0.2))
    assert "running for 0.2 s" in drawn(view)[0]
    assert status_line(view) == "running for 0.2 s"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 16), (120, 50)])
def test_one_screen_is_one_screen(width: int, height: int) -> None:
    view = build(
        Snapshot(
            an_info(command=["python", "-c", "\nimport x\n" + "\x1b" * 300]),
            1e6,
            processes=[a_process(100 + i, "loader-worker") for i in range(60)],
            boxes=[a_box()],
            vitals=memory_rows([GIB + i * 10 * MIB for i in range(60)], 2 * GIB),
            printed=[b"y" * 500] * 60,
        )
    )
    lines = drawn(view, width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert any("loader-worker, running" in line for line in lines)


def test_a_rank_says_whom_it_waits_for() -> None:
    boxes = [
        a_box(pid=100, rank=0, collective=None, phase="backward", optimizer_steps=200),
        a_box(pid=101, rank=1, collective="all_reduce", last_progress_t_seconds=97.0),
        a_box(pid=102, rank=2, collective="all_reduce", last_progress_t_seconds=99.9),
    ]
    processes = [a_process(100 + rank, "rank", rank=rank) for rank in range(3)]
    view = build(Snapshot(an_info(), 100.0, processes=processes, boxes=boxes))
    assert [line.doing for line in view.processes] == [
        "backward",
        "waiting 3.0 s for rank 0",
        "all_reduce",
    ]
    assert [line.step for line in view.processes] == [200, 200, 200]


def test_warnings_as_they_arise() -> None:
    rows = memory_rows([1 * GIB + i * 16 * MIB for i in range(60)], 2 * GIB)
    machine = {
        "shm_used_bytes": 62 * MIB,
        "shm_total_bytes": 64 * MIB,
        "gpu0_used_bytes": 39 * GIB,
        "gpu0_total_bytes": 40 * GIB,
        "gpu0_utilisation": 0.5,
        "cwd_disk_free_bytes": 100 * MIB,
        "cwd_disk_total_bytes": 100 * GIB,
    }
    rows[-1].machine.update(machine)
    view = build(
        Snapshot(
            an_info(),
            100.0,
            processes=[
                a_process(100),
                a_process(101, "loader-worker", ended_t_seconds=9.0, signal="SIGKILL"),
            ],
            boxes=[a_box(first_nonfinite_step=50)],
            vitals=rows,
            events=[
                Event(90.0, "stall", {"silent_seconds": 30.0}),
                Event(91.0, "gate", {"gate": "loss < 2 @ step 5", "is_met": False, "text": "bad"}),
            ],
        )
    )
    said = {alert.kind: alert.text for alert in view.alerts}
    assert said["stall"] == "no progress for 40 s"
    assert said["not-finite"] == "the loss is not finite since step 50"
    assert said["worker-lost"] == "loader worker (pid 101) is gone: SIGKILL"
    assert said["growth"].startswith("memory grows: full in about")
    assert said["gate"] == "bad"
    limits = [alert.text for alert in view.alerts if alert.kind == "limit"]
    assert [text.partition(":")[0] for text in limits[1:]] == ["GPU 0", "shm", "disk"]
    text = "\n".join(drawn(view, 120, 40))
    for part in ("GPU 0 39/40 GiB 50 %", "shm 62/64 MiB", "disk 100 MiB free", "is gone: SIGKILL"):
        assert part in text


def test_growth_is_told_per_step_where_steps_are_seen() -> None:
    rows = memory_rows([GIB + i * 10 * MIB for i in range(60)], 2 * GIB)
    memory = build(Snapshot(an_info(), 100.0, boxes=[a_box()], vitals=rows)).memory
    assert memory is not None
    assert memory.growth_bytes_per_step == pytest.approx(5 * MIB, rel=0.05)  # two steps a second


def test_a_run_that_ended_has_no_warnings_but_the_next_command() -> None:
    outcome = Outcome("exit", "exit 1", exit_code=1)
    ended = an_info(state="ended", outcome=outcome, elapsed_seconds=9.0)
    view = build(Snapshot(ended, 9.0, boxes=[a_box(first_nonfinite_step=3)]))
    assert view.alerts == []
    assert view.next_command == f"rerail explain {ended.id}"
    proposed = Diagnosis(outcome, next_step=NextStep("tell", "rerail isolate -- python t.py"))
    view = build(Snapshot(ended, 9.0, diagnosis=proposed))
    assert view.next_command == "rerail isolate -- python t.py"


def test_a_run_that_stands_still_has_no_time_to_go() -> None:
    """It said "1 min to go" beside "no progress for a minute"."""
    box = a_box(progress_text="40/200")
    stall = Event(60.0, "stall", {"silent_seconds": 20.0})
    going = Snapshot(an_info(), 100.0, boxes=[box])
    assert "to go" in " ".join(drawn(build(going)))
    told = " ".join(drawn(build(replace(going, events=[stall]))))
    assert "no progress for 1 min" in told and "to go" not in told and "steps/s" not in told


def test_a_program_that_prints_its_steps_is_not_idle() -> None:
    rows = memory_rows([GIB] * 60, 2 * GIB)
    key = a_process(1).key
    quiet = [replace(row, processes={key: replace(row.tree, cpu_seconds=1.0)}) for row in rows]
    point = PrintedPoint(99.0, step=7, steps=7)
    snapshot = Snapshot(an_info(), 100.0, processes=[a_process(1)], recent=quiet)
    assert build(snapshot).processes[0].doing == "idle"
    assert build(replace(snapshot, printed_progress=[point])).processes[0].doing is None


@unhurried
@given(st.binary())
def test_any_output_is_readable(printed: bytes) -> None:
    assert readable(printed).isprintable()


@unhurried
@given(st.lists(st.floats(), max_size=30))
def test_any_values_draw_one_character_each(values: list[float]) -> None:
    assert len(sparkline(values)) == len(values)


def test_the_total_is_the_one_that_the_output_prints() -> None:
    said = PrintedPoint(20.0, step=31, total=1000, steps=31)
    history = [StepPoint(step, step * 0.5, 0.1) for step in range(1, 32)]
    box = a_box(optimizer_steps=31, history=history)
    progress = build(Snapshot(an_info(), 20.0, boxes=[box], printed_progress=[said])).progress
    assert progress is not None
    assert (progress.steps, progress.done, progress.total) == (31, 31, 1000)
    assert progress.eta_seconds == pytest.approx(969 * 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("silent", "step_seconds", "said"),
    [(240.0, 0.5, "no progress for 4 min"), (40.0, 0.5, ""), (240.0, 100.0, "")],
    ids=["long", "short", "steps take as long"],
)
def test_a_silence_is_told_of_before_it_counts_as_a_stall(
    silent: float, step_seconds: float, said: str
) -> None:
    history = [StepPoint(step, step * step_seconds, 0.1) for step in range(1, 5)]
    box = a_box(optimizer_steps=4, history=history)
    view = build(Snapshot(an_info(), 300.0, boxes=[box], silent_seconds=silent))
    assert said in view.headline
    assert ("no progress" in view.headline) == bool(said)
    assert view.stalled_seconds is None
    assert not view.is_bad
