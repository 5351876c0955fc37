"""What came of a trial: `isolate` and `verify` have one judge, and one rule for idle time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rerail.changes import Profile
from rerail.experiments.trials.failure import Diagnostician, Failure
from rerail.experiments.trials.outcome import Judged, Wanted, judge_run, lived_so_far
from rerail.store import RunFolder, Store

BUSY = Wanted(profile=Profile(busy_share=1.0))
HANG = Failure("deadlock", "hang", None, None, None, "it hung", "run")


def recorded(home: Path, working: float, idle: float) -> RunFolder:
    """A run that used a processor for `working` seconds, and none for `idle` seconds after that."""
    writer = Store(home).create_run(["python", "train.py"], str(home), {}, False)
    lines = [json.dumps({"schema": 1, "process_fields": ["cpu_seconds"]})]
    for tenth in range(round(10 * (working + idle)) + 1):
        used = [min(tenth / 10, working)]
        row = {"t": tenth / 10, "span": 0.0, "n": 1, "tree": used, "procs": {}, "machine": {}}
        lines.append(json.dumps(row))
    (writer.path / "vitals.recent.jsonl").write_text("\n".join(lines) + "\n")
    writer.update_info(elapsed_seconds=working + idle)
    return RunFolder(writer.path)


def stopped(folder: RunFolder, wanted: Wanted) -> Judged:
    seconds = folder.info().elapsed_seconds or 0.0
    return judge_run(folder, wanted, Diagnostician(), seconds, stopped_ns=time.monotonic_ns())


@pytest.mark.parametrize(
    ("working", "idle", "outcome", "lived"),
    [
        (20.0, 1.0, "stopped", 21.0),  # the next epoch begins
        (20.0, 5.0, "stopped", 20.0),  # a pause is no life, but no hang either
        (20.0, 20.0, "other", 20.0),  # it hangs
    ],
)
def test_idle_time_at_the_end_does_not_count(
    tmp_path: Path, working: float, idle: float, outcome: str, lived: float
) -> None:
    folder = recorded(tmp_path, working, idle)
    found = stopped(folder, BUSY)
    assert found.outcome == outcome
    assert ("did nothing any more for 2" in found.summary) == (outcome == "other")
    assert found.distance.seconds == pytest.approx(lived, abs=0.8)
    under_way = lived_so_far(folder, BUSY, working + idle)
    assert under_way.seconds == pytest.approx(lived, abs=0.8)


@pytest.mark.parametrize(
    "wanted",
    [
        replace(BUSY, unit="steps"),  # steps tell better
        replace(BUSY, profile=Profile(busy_share=0.2)),  # it waits often anyway
    ],
)
def test_where_being_idle_says_nothing_all_of_the_time_counts(
    tmp_path: Path, wanted: Wanted
) -> None:
    found = stopped(recorded(tmp_path, 20.0, 20.0), wanted)
    assert (found.outcome, found.distance.seconds) == ("stopped", 40.0)


def test_a_hang_that_is_looked_for_is_not_another_ending(tmp_path: Path) -> None:
    assert stopped(recorded(tmp_path, 20.0, 20.0), replace(BUSY, failure=HANG)).outcome == "stopped"


FAILS = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass\n{}"


def test_a_death_is_judged_against_the_failure_that_is_looked_for(tmp_path: Path) -> None:
    def run(ending: str) -> RunFolder:
        home = tmp_path / ending[:5]
        command = [sys.executable, "-c", FAILS.format(0.1, ending)]
        subprocess.run(
            [sys.executable, "-m", "rerail", "run", "--home", home, "--", *command],
            capture_output=True,
            timeout=120,
        )
        [path] = (home / "runs").iterdir()
        return RunFolder(path)

    key, value = run("raise KeyError('lr')"), run("assert 1 + 1 == 3")
    diagnostician = Diagnostician()
    first = judge_run(key, Wanted(), diagnostician, 1.0)
    assert first.outcome == "crashed", "any failure will do"
    assert judge_run(value, Wanted(takes_any=False), diagnostician, 1.0).outcome == "other"
    wanted = Wanted(first.failure)
    assert judge_run(key, wanted, diagnostician, 1.0).outcome == "crashed"
    other = judge_run(value, wanted, diagnostician, 1.0)
    assert other.outcome == "other" and other.failure is not None
    late = judge_run(value, wanted, diagnostician, 1.0, stopped_ns=time.monotonic_ns())
    assert late.outcome == "stopped", "what rerail ended may die of anything"
