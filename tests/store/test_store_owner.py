"""A store that another user can change gets nothing that is private to us."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.store import RunWriter, Store

NewRun = Callable[..., RunWriter]
STRANGER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the fallback store of these tests apart from the user's own."""
    place = tmp_path / "tëmp folder"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))


def reason(writer: RunWriter, store: Store) -> str:
    """Return why the run is not in its store; it is in the fallback store instead."""
    assert not writer.path.is_relative_to(store.home)
    assert (writer.path / "private.jsonl").is_file()
    assert not [path for path in store.runs.iterdir() if path.is_dir()]
    return dict(writer.missing)[f"run folder in {store.home}"]


@pytest.mark.parametrize("inside", [".", "runs"])
def test_a_store_that_every_user_can_write(store: Store, new_run: NewRun, inside: str) -> None:
    store.runs.mkdir(parents=True)
    folder = store.home / inside
    folder.chmod(0o777)
    assert f"chmod o-w {folder}" in reason(new_run(), store).replace("'", "")
    folder.chmod(0o1777)  # with the sticky bit nobody replaces what is ours
    assert new_run().path.is_relative_to(store.home)


@needs_root
@pytest.mark.parametrize("inside", [".", "runs"])
def test_a_store_of_another_user(store: Store, new_run: NewRun, inside: str) -> None:
    store.runs.mkdir(parents=True)
    os.chown(store.home / inside, STRANGER, -1)
    said = reason(new_run(), store)
    assert f"another user (number {STRANGER})" in said and "--home" in said


@needs_root
@pytest.mark.parametrize("owner", [0, STRANGER])
def test_a_run_folder_that_was_swapped(store: Store, new_run: NewRun, owner: int) -> None:
    """He prepares an open file where `private.jsonl` will be, in his folder or in ours."""
    writer = new_run()
    writer.close()
    writer.path.rename(store.home / "aside")
    writer.path.mkdir()
    bait = writer.path / "private.jsonl"
    bait.touch()
    bait.chmod(0o666)
    os.chown(bait, STRANGER, -1)
    os.chown(writer.path, owner, -1)
    RunWriter(writer.path, writer.info).keep_environment({"HF_TOKEN": "hf_" + "a1B2" * 9})
    assert bait.read_bytes() == b""


def test_a_run_folder_that_became_a_link(store: Store, new_run: NewRun, tmp_path: Path) -> None:
    writer = new_run()
    writer.close()
    writer.path.rename(store.home / "aside")
    (tmp_path / "elsewhere").mkdir()
    writer.path.symlink_to(tmp_path / "elsewhere")
    changed = RunWriter(writer.path, writer.info)
    changed.keep_environment({"HF_TOKEN": "hf_" + "a1B2" * 9})
    changed.event("mark")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert "private.jsonl" in dict(changed.missing)


def test_a_file_system_that_gives_our_files_another_owner(
    store: Store, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS with root_squash, seen from here: what we make is not of our number."""
    number = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: number)
    writer = new_run()
    writer.event("mark")
    assert writer.path.is_relative_to(store.home) and writer.missing == []
    assert not list(store.home.rglob(".owner-*"))
