"""Whoever presses Ctrl-C after a death has seen enough: no wait of rerail's own goes on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

GUARD_SECONDS = 240

# As if rerail were ready to wait for ten minutes, twice: for a receiver, then for a tracker.
PROGRAM = """
import sys
from rerail.platform import own_process
own_process.PATIENCE_SECONDS = own_process.PATIENCE_OF_THE_FIRST_SECONDS = 600.0
from rerail.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_one_press_ends_every_wait_and_what_was_begun_goes_on(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 20\n")
    python.chmod(0o755)
    head = json.dumps({"schema": 1, "python": str(python), "cwd": str(tmp_path)})
    run = json.dumps({"tracker": "mlflow", "run": "r", "state": "open", "package": ""})
    (tmp_path / "trackers").write_text(f"{head}\n{run}\n")
    # The receiver presses Ctrl-C at the rerail whose child the command was, and does not answer.
    command = "cp trackers $RERAIL_AGENT/1-1.trackers; echo $PPID >rerail; exit 3"
    receiver = f"cd {shlex.quote(str(tmp_path))}; echo $RERAIL_EVENT >told; kill -INT $(cat rerail)"
    words = ["run", "--home", str(tmp_path / "home"), "--notify", f"{receiver}; sleep 20"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--", "sh", "-c", command],
        cwd=tmp_path,
        env={name: text for name, text in os.environ.items() if not name.startswith("RERAIL_")},
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
    )
    assert done.returncode == 3, done.stderr
    assert (tmp_path / "told").read_text() == "death\n"
    assert "MLflow has not answered yet" in done.stderr
