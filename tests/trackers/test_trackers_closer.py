"""The child that closes runs with the program's own interpreter, whatever that prints."""

from __future__ import annotations

from pathlib import Path

from rerail.records import TrackedRun
from rerail.trackers.closer import _Child


def test_what_an_interpreter_prints_at_its_start_is_no_answer(tmp_path: Path) -> None:
    """A sitecustomize that says hello kept all runs of all trackers open."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\ncat >/dev/null\necho Welcome\necho 7\n"
        """echo '{"run": "r", "did": "FAILED"}'\nprintf '{"run": "half'\n"""
    )
    python.chmod(0o755)
    child = _Child([TrackedRun("mlflow", "r", "open", python=str(python), cwd=str(tmp_path))])
    assert child.ask({}) == [{"run": "r", "did": "FAILED"}]
