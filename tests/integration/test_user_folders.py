"""Experiments leave the user's folders as they were: content, modes, times and listing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rerail.platform import overlay

PROGRAM = Path(__file__).parent.parent / "programs" / "writes_everywhere.py"
SAFE = ["--budget", "100s", "--no-raise-hazard", "--max-trials", "4", "--try", "--safe"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of an ordinary kind, and a folder of results that only the program's text names."""
    place = tmp_path / "mon é project"
    for name in ("ck", "logs", "cache"):
        (place / name).mkdir(parents=True)
    (place / "ck" / "0.pt").write_text("zero")
    (place / "train.py").write_text(PROGRAM.read_text())
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "old.txt").write_text("old")
    (tmp_path / "layers").mkdir()
    return place


def rerail(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    above = place.parent
    environ = {**os.environ, "RESULTS": str(above / "results"), "TMPDIR": str(above / "layers")}
    return subprocess.run(
        [sys.executable, "-m", "rerail", *words],
        cwd=place,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def snapshot(place: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for top in (place, place.parent / "results"):
        for path in (top, *sorted(top.rglob("*"))):
            if ".rerail" in path.parts:
                continue
            status = path.lstat()
            is_store_above = path == place  # the store is made in it
            time_ns = None if is_store_above else status.st_mtime_ns
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mode, status.st_uid, time_ns, content)
    return found


def skip_without_overlay(place: Path) -> None:
    if why := overlay.why_not([place], place.parent / "layers"):
        pytest.skip(f"no overlay here: {why}")


def document_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def failing_run(place: Path, *options: str) -> dict[str, object]:
    """Record the failure in folders that are put back as they were, except for what it wrote."""
    rerail(place, "run", *options, "-q", "--no-explain", "--", sys.executable, "train.py")
    (place / "ck" / "0.pt").write_text("zero")
    (place.parent / "results" / "old.txt").write_text("old")
    (place / "cache" / "five").rmdir()
    return snapshot(place)


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", [None, "ck/*.pt"])
def test_isolate_leaves_the_folders_as_they_were(folder: Path, pattern: str | None) -> None:
    skip_without_overlay(folder)
    before = failing_run(folder)
    where = ["--checkpoint", pattern, "--resume-args", "--resume {checkpoint}"] if pattern else []
    words = ["isolate", "--json", *SAFE, *where, "--", sys.executable, "train.py"]
    document = document_of(rerail(folder, *words))
    of_safe = [each["outcome"] for each in document["trials"] if each["changes"]]
    assert of_safe and set(of_safe) <= {"finished", "stopped"}, document["trials"]
    assert snapshot(folder) == before
    assert list((folder.parent / "layers").iterdir()) == []
    assert document["outputs"] is None


@pytest.mark.thorough
def test_verify_and_check_leave_the_folders_as_they_were(folder: Path) -> None:
    skip_without_overlay(folder)
    before = failing_run(folder)
    words = ["--json", "--budget", "60s", "--with", "--safe", "--", sys.executable, "train.py"]
    assert document_of(rerail(folder, "verify", *words))["trials"]
    assert snapshot(folder) == before
    rerail(folder, "check", "--json", "--", sys.executable, "train.py", "--safe")
    assert snapshot(folder) == before
    assert list((folder.parent / "layers").iterdir()) == []


@pytest.mark.thorough
def test_what_trials_wrote_is_kept_on_request(folder: Path) -> None:
    skip_without_overlay(folder)
    before = failing_run(folder)
    words = ["isolate", "--keep-outputs", *SAFE, "--", sys.executable, "train.py"]
    done = rerail(folder, *words)
    kept = folder / ".rerail" / "outputs"
    assert f"What trials wrote is in {kept}" in " ".join(done.stdout.split()), done.stdout
    runs = sorted(kept.iterdir())
    assert len(runs) > 1 and all((folder / ".rerail/runs" / run.name).is_dir() for run in runs)
    of_one = runs[0] / folder.relative_to("/")
    assert (of_one / "ck" / "latest.pt").read_text() in ("5", "11")
    deleted = (runs[0] / "deleted.txt").read_text().splitlines()
    assert str(folder / "ck" / "0.pt") in deleted
    assert snapshot(folder) == before
    assert list((folder.parent / "layers").iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["isolate", "verify"])
def test_without_overlay_it_says_what_would_be_written_and_asks(folder: Path, name: str) -> None:
    above = str(folder.parent)  # a store around the working folder must stay really written
    before = failing_run(folder, "--home", above)
    words = {"isolate": SAFE, "verify": ["--budget", "60s", "--with", "--safe"]}[name]
    command = ["--", sys.executable, "train.py"]
    done = rerail(folder, name, "--home", above, *words, *command)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2 and "nothing was run" in said, said
    assert "--yes" in said and "ck/latest.pt" in said and "runs.db" in said
    assert snapshot(folder) == before
    done = rerail(folder, name, "--home", above, *words, "--yes", *command)
    # Then trials really write, and this program cannot run twice: it deletes what it began from.
    assert "nothing was run" not in done.stderr and snapshot(folder) != before
