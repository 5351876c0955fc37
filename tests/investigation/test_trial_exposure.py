"""How far a run came that hung."""

import subprocess
import sys
from pathlib import Path

import pytest

from rerail.investigation.session.exposure import measure
from rerail.store import RunFolder

HANG = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
WORK = "import time\nwhile time.process_time() < 1.0: sum(range(1000))\n"


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
        timeout=120,
    )
    [path] = (tmp_path / "home" / "runs").iterdir()
    folder = RunFolder(path)
    elapsed = folder.info().elapsed_seconds
    assert elapsed is not None and folder.info().outcome.kind == "hang"
    assert least <= measure(folder, elapsed).seconds <= elapsed - 2.0
