"""A folder in PATH that cannot be searched does not keep a run from being recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_folders_of_path_that_cannot_be_searched_are_passed_over(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    file = tmp_path / "file"
    file.touch()
    odd = [str(closed), str(loop), str(file), "/" + "a" * 5000]
    environ = {**os.environ, "PATH": os.pathsep.join([*odd, os.environ["PATH"]])}
    command = [sys.executable, "-m", "rerail", "run", "--", "true"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "cannot record" not in ended.stderr
    assert list((tmp_path / ".rerail" / "runs").iterdir())
