"""What bodes ill at the start of a run stands in its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

RERAIL = [sys.executable, "-m", "rerail"]
UNTIL_IT_IS_WRITTEN = """
import os, pathlib, time
file = pathlib.Path(os.environ["RERAIL_AGENT"]).parent / "surroundings.json"
deadline = time.monotonic() + 50
while time.monotonic() < deadline and not (file.exists() and '"warnings":' in file.read_text()):
    time.sleep(0.05)
raise SystemExit(3)
"""


def test_a_variable_that_hides_a_fault_is_in_the_record(tmp_path: Path) -> None:
    environ = {**os.environ, "KMP_DUPLICATE_LIB_OK": "TRUE", "RERAIL_HOME": str(tmp_path)}
    command = ["--", sys.executable, "-c", UNTIL_IT_IS_WRITTEN]
    ran = subprocess.run([*RERAIL, "run", "--no-explain", *command], env=environ, timeout=90)
    shown = subprocess.run(
        [*RERAIL, "show", "last", "--json"], env=environ, timeout=60, capture_output=True
    )

    assert ran.returncode == 3
    # The machine may give cause for others.
    assert "KMP_DUPLICATE_LIB_OK" in " ".join(json.loads(shown.stdout)["warnings"])
