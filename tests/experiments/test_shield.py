"""Which folders trials are kept from, how much they may write, and what is left of a killed one."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rerail.errors import UsageError
from rerail.experiments import Asking, IsolateOptions, Shield, investigate
from rerail.experiments.trials.covered import own_places
from rerail.experiments.trials.live_view import Silent
from rerail.platform import overlay
from rerail.store import Store


class Listener(Silent):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def said(self, text: str) -> None:
        self.heard.append(text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with the layers beside it; skipped where no overlay is possible."""
    place, layers = tmp_path / "mon é project", tmp_path / "layers"
    place.mkdir()
    layers.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(layers))
    if why := overlay.why_not([place], layers):
        pytest.skip(f"no overlay here: {why}")
    monkeypatch.chdir(place)
    return place


def shield_over(place: Path, heard: list[str] | None = None, **options: object) -> Shield:
    words = [sys.executable, "train.py"]
    asking = Asking((heard if heard is not None else []).append)
    return Shield(words, str(place), None, asking, **options)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_a_trial_that_writes_too_much_is_ended_and_is_no_failure(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.experiments.trials.shield._SHARE_OF_ROOM", 0.0)
    listener = Listener()
    program = "import time; open('big', 'wb').write(bytes(1 << 22)); time.sleep(600)"
    document = investigate(
        [sys.executable, "-c", program],
        ["OMP_NUM_THREADS=1"],
        Store(project / ".rerail"),
        IsolateOptions(max_trials=3),
        listener,
    )
    assert document["ended_because"] == "trials wrote more than there is room for"
    assert [trial["outcome"] for trial in document["trials"]] == ["stopped", "stopped"]
    (sentence, _) = [text for text in listener.heard if "is ended: it wrote" in text]
    assert sentence.startswith("trial 1 is ended: it wrote ") and "in TMPDIR" in sentence
    assert not (project / "big").exists()
    assert list((project.parent / "layers").iterdir()) == []


def test_what_a_killed_isolate_left_is_removed_by_a_later_one(project: Path) -> None:
    layers = project.parent / "layers"
    left, held, young = (layers / f"rerail-trials-{name}" for name in ("left", "held", "young"))
    for folder in (left, held, young):
        (folder / "1" / "0-work" / "work").mkdir(parents=True)
        (folder / "1" / "0-work" / "work").chmod(0)
        (folder / "in-use").touch()
        if folder is not young:
            os.utime(folder, (0, 0))
    with (held / "in-use").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        shield = shield_over(project)
        assert shield.layers()
        assert str(project) in shield.folders or any(
            project.is_relative_to(each) for each in shield.folders
        )
        shield.close()
    assert sorted(path.name for path in layers.iterdir()) == [held.name, young.name]


def test_nothing_is_tried_or_made_before_the_first_trial(project: Path) -> None:
    shield = shield_over(project)
    assert list((project.parent / "layers").iterdir()) == []
    shield.close()


@pytest.mark.parametrize("cwd", ["/", "store"])
def test_where_no_overlay_is_possible_it_refuses_and_says_what_to_type(
    project: Path, cwd: str
) -> None:
    place = project if cwd == "store" else Path(cwd)
    heard: list[str] = []
    shield = shield_over(place, heard, store=Store(project))
    with pytest.raises(UsageError) as caught:
        shield.layers()
    assert "nothing was run: trials write where the command writes" in caught.value.message
    assert "--yes" in caught.value.help_text
    assert any("no run of this command is on record" in text for text in heard)
    assert list((project.parent / "layers").iterdir()) == []


def test_a_temporary_folder_as_working_folder_gets_its_layers_elsewhere(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(project))
    shield = shield_over(project)
    where = Path(shield.layers())
    assert not where.is_relative_to(project)
    shield.close()
    assert not where.exists() and list(project.iterdir()) == []


def test_where_links_of_the_project_lead_is_covered_before_the_first_trial(project: Path) -> None:
    scratch, logs = project.parent / "scratch", project.parent / "logs"
    scratch.mkdir()
    logs.mkdir()
    (logs / "train.log").write_text("")
    (project / "out").mkdir()
    (project / "out" / "ck").symlink_to(scratch)
    (project / "train.log").symlink_to(logs / "train.log")
    (project / "nowhere").symlink_to("/nonexistent/folder/file")
    (project / "all").symlink_to("/tmp")
    shield = shield_over(project)
    shield.layers()
    for folder in (scratch, logs):
        assert any(folder.is_relative_to(each) for each in shield.folders)
    assert "/tmp" not in shield.folders
    shield.close()


@pytest.mark.parametrize("place", ["/dev/shm", "/var"])
def test_what_runs_wrote_where_programs_share_folders_is_covered(project: Path, place: str) -> None:
    if not os.access(place, os.W_OK):
        pytest.skip(f"this user may not write to {place}")
    with tempfile.TemporaryDirectory(prefix="results-", dir=place) as results:
        shield = shield_over(project)
        layers = shield.layers()
        assert results not in shield.folders
        begun = time.time()
        (Path(results) / "1.txt").write_text("written by the first trial")
        shield.over(layers, "", begun)
        assert results in shield.folders
        shield.close()


def test_other_places_are_neither_of_the_system_nor_temporary(tmp_path: Path) -> None:
    for place in own_places(tmp_path):
        assert os.access(place, os.W_OK)
        assert not Path(tempfile.gettempdir()).resolve().is_relative_to(place)
        assert place.parts[:2] not in {("/", name) for name in ("usr", "proc", "sys", "dev", "tmp")}


def test_a_temporary_folder_that_the_first_trial_wrote_to_is_covered_from_then_on(
    project: Path,
) -> None:
    results, meeting = project.parent / "results", project.parent / "meeting"
    results.mkdir()
    meeting.mkdir()
    os.mkfifo(meeting / "pipe")
    shield = shield_over(project)
    layers = shield.layers()
    assert not any(results.is_relative_to(each) for each in shield.folders)
    begun = time.time()
    (results / "1.txt").write_text("written by the first trial")
    (meeting / "1.txt").write_text("here it meets another program")
    shield.over(layers, "", begun)
    assert any(results.is_relative_to(each) for each in shield.folders)
    assert not any(meeting.is_relative_to(each) for each in shield.folders)
    shield.close()
