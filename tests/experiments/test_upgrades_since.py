"""What was upgraded since a day or since a list: against the packages of this very interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.errors import UsageError
from rerail.experiments.environments.own import find_own
from rerail.experiments.environments.since import upgrades_since
from rerail.store import Store

COMMAND = [sys.executable, "train.py"]


def since(what: str, folder: Path) -> tuple[str, ...]:
    found = upgrades_since(what, COMMAND, folder, dict(os.environ), Store(folder / "home"))
    return found.changes


def frozen(folder: Path) -> dict[str, str]:
    return find_own(COMMAND, folder, dict(os.environ)).frozen()


def test_a_list_is_compared_with_what_is_installed(tmp_path: Path) -> None:
    lines = frozen(tmp_path)
    old = tmp_path / "old.txt"
    old.write_text("\n".join(line.lower() if "@" not in line else line for line in lines.values()))
    with pytest.raises(UsageError, match=r"nothing was upgraded since old\.txt"):
        since("old.txt", tmp_path)
    lines["hypothesis"] = "hypothesis==1.0"
    del lines["pytest"]
    old.write_text("\n".join(lines.values()))
    assert since("old.txt", tmp_path) == ("hypothesis==1.0", "without:pytest")


def test_a_day_stands_for_what_was_recorded_before_it(tmp_path: Path) -> None:
    seen = str(tmp_path / "home/runs/*/surroundings.json")  # it ends when they are on record
    code = (
        f"import glob, time\nwhile not glob.glob({seen!r}): time.sleep(0.05)\nraise SystemExit(3)"
    )
    run = [sys.executable, "-m", "rerail", "run", "-q", "--home", str(tmp_path / "home"), "--"]
    subprocess.run([*run, sys.executable, "-c", code], check=False, timeout=180)
    (recorded,) = (tmp_path / "home" / "runs").glob("*/surroundings.json")
    document = json.loads(recorded.read_text())
    document["packages"]["hypothesis"] = "1.0"
    recorded.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="no run before 2001-01-01"):
        since("2001-01-01", tmp_path)
    assert "hypothesis==1.0" in since("2999-01-01", tmp_path)


def test_what_is_neither_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a file nor a date"):
        since("yesterday", tmp_path)
