"""A dry run leaves the user's folders as they were, also what native code writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rerail.platform import overlay
from rerail.preflight.memory.rehearsal import rehearse

WRITES = """
import os, sqlite3, sys
base = sqlite3.connect("runs.db")
base.execute("create table t (a)")
base.commit()
os.system("echo more >> log.txt; echo new > '%s/new.txt'" % sys.argv[1])
"""


def snapshot(*folders: Path) -> dict[Path, object]:
    paths = [each for folder in folders for each in (folder, *sorted(folder.rglob("*")))]
    return {
        path: (path.stat().st_mode, path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in paths
    }


def test_nothing_that_a_dry_run_writes_reaches_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out, layers = tmp_path / "my é project", tmp_path / "out", tmp_path / "a,b:c"
    for each in (folder, out, layers):
        each.mkdir()
    (folder / "log.txt").write_text("begun")
    monkeypatch.setattr("tempfile.tempdir", str(layers))
    if why := overlay.why_not([folder], layers):
        pytest.skip(f"no overlay here: {why}")
    before = snapshot(folder, out)
    command = [sys.executable, "-c", WRITES.strip(), str(out)]
    found = rehearse(command, folder, dict(os.environ), most_seconds=60)
    assert found.ending == "finished", found.last_lines
    assert snapshot(folder, out) == before
    assert list(layers.iterdir()) == []
