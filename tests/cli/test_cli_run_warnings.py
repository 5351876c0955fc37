"""What bodes ill in the surroundings of a run is told by whoever looks at its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

RERAIL = [sys.executable, "-m", "rerail"]


def test_a_variable_that_hides_a_fault_is_told(tmp_path: Path) -> None:
    environ = {**os.environ, "KMP_DUPLICATE_LIB_OK": "TRUE", "RERAIL_HOME": str(tmp_path)}
    # The surroundings have a bounded time after the end, so the command waits for them itself.
    code = (
        "import glob, time\n"
        f"while not glob.glob({str(tmp_path)!r} + '/runs/*/surroundings.json'): time.sleep(0.05)\n"
        "raise SystemExit(3)"
    )
    command = ["--", sys.executable, "-c", code]
    ran = subprocess.run([*RERAIL, "run", "--no-explain", *command], env=environ, timeout=180)
    shown = subprocess.run(
        [*RERAIL, "show", "last", "--json"], env=environ, timeout=180, capture_output=True
    )

    assert ran.returncode == 3
    # The machine may give cause for others.
    assert "KMP_DUPLICATE_LIB_OK" in " ".join(json.loads(shown.stdout)["warnings"])
