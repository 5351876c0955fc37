"""Step and loss of a whole run: the rows are few, and the charts begin at the first step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rerail.evidence import RecordedRun
from rerail.recorder.vitals.step_history import next_row_at
from rerail.records import BlackBox, RunInfo, StepPoint, StepRow
from rerail.report import training_charts
from rerail.report.charts import timeline
from rerail.store import Store

MONTH_SECONDS = 30 * 86400.0
PRINTS = """
import time
for step in range(1, 41):
    print(f"step {step}/40 loss {1 / step:.4f}", flush=True)
    time.sleep(0.05)
"""


def test_a_month_has_about_a_thousand_rows() -> None:
    now, rows = 0.0, 0
    while now < MONTH_SECONDS:
        now, rows = next_row_at(now), rows + 1
    assert rows < 1500


def test_the_charts_begin_where_the_run_did() -> None:
    last = [StepPoint(step, step * 0.5, 1 / step) for step in range(745, 1001)]
    box = BlackBox(
        pid=7, start_ticks=1, parent_pid=1, python_version="3.11", argv=[], started_t_seconds=0.0,
        said_goodbye=True, handler_installed=True, optimizer_steps=1000, history=last,
    )  # fmt: skip
    rows = [StepRow(step, step * 0.5, 1 / step, 7) for step in range(1, 1001, 10)]
    of_another = [StepRow(3, 1.5, 99.0, 8)]
    run = RecordedRun(_info(), boxes=[box], steps=[*rows, *of_another])
    loss = next(chart for chart in timeline(run) if chart.name == "loss")
    step_time = next(chart for chart in timeline(run) if chart.name == "step-time")
    assert (loss.x[0], loss.x[-1]) == (0.5, 500.0)
    assert loss.series[0].values[0] == 1.0
    assert loss.summary == "From 1 to 0.001."
    assert set(step_time.series[0].values) == {0.5}
    assert sorted(loss.x) == loss.x


def test_the_loss_that_a_program_prints_is_drawn_from_its_beginning(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "rerail", "run", "--home", str(tmp_path), "--",
         sys.executable, "-c", PRINTS],
        capture_output=True, check=True, timeout=240,
    )  # fmt: skip
    folder = Store(tmp_path).resolve("last")
    loss = next(chart for chart in training_charts(folder)[0] if chart.name == "loss")
    first, final = loss.series[0].values[0], loss.series[0].values[-1]
    assert first is not None
    assert final == 0.025
    assert first > 4 * final


def _info() -> RunInfo:
    return RunInfo(
        schema=1, id="a", command=["python"], cwd="/", started_unix=0.0, host="h",
        rerail_version="1", recorder_pid=1, root_pid=7, has_terminal=False, state="ended",
    )  # fmt: skip
