"""How far a run came that hung."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.experiments.trials.exposure import measure, share_of_its_pace
from rerail.store import RunFolder

HANG = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
WORK = "import time\nwhile time.process_time() < 1.0: sum(range(1000))\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("before", "least"),
    [
        ("print('soon', flush=True)\n", 0.0),
        # It says nothing, but it worked for a second of processor time before it hung.
        (WORK, 1.0),
    ],
)
def test_waiting_for_a_run_that_hangs_is_not_exposure(
    tmp_path: Path, before: str, least: float
) -> None:
    program = tmp_path / "hangs.py"
    program.write_text(before + HANG)
    subprocess.run(
        [
            *(sys.executable, "-m", "rerail", "run", "--home", tmp_path / "home"),
            *("--stall", "3", "--on-stall", "kill", "--", sys.executable, program),
        ],
        capture_output=True,
        timeout=240,
    )
    [path] = (tmp_path / "home" / "runs").iterdir()
    folder = RunFolder(path)
    elapsed = folder.info().elapsed_seconds
    assert elapsed is not None and folder.info().outcome.kind == "hang"
    assert least <= measure(folder, elapsed).seconds <= elapsed - 2.0


SPIN = "import time\nend = time.monotonic() + 6\nwhile time.monotonic() < end: sum(range(1000))\n"


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor can be chosen")
def test_a_run_that_shares_its_processor_is_not_clean_for_longer(tmp_path: Path) -> None:
    """Three programs on one processor: by the clock each lives six seconds, and works for two."""
    core = {min(os.sched_getaffinity(0))}
    program = tmp_path / "spins.py"
    program.write_text(f"import os\nos.sched_setaffinity(0, {core})\n{SPIN}")
    beside = [subprocess.Popen([sys.executable, program]) for _ in range(2)]
    try:
        subprocess.run(
            [
                *(sys.executable, "-m", "rerail", "run", "--home", tmp_path / "home", "--"),
                *(sys.executable, program),
            ],
            capture_output=True,
            timeout=240,
        )
    finally:
        for process in beside:
            process.kill()
            process.wait()
    [path] = (tmp_path / "home" / "runs").iterdir()
    rows = RunFolder(path).recent_vitals()
    worked = rows[-1].tree.cpu_seconds / rows[-1].t_seconds
    assert worked < 0.8
    assert share_of_its_pace(rows, busy_share=1.0) == pytest.approx(worked)
    # Against a run that was as slow, it is not slowed down.
    assert share_of_its_pace(rows, busy_share=worked) == 1.0
    assert share_of_its_pace([], busy_share=1.0) == 1.0
