"""A store stays out of the git repository around it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from rerail.store import RunWriter, Store


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_add_leaves_the_store_out(store: Store, new_run: Callable[..., RunWriter]) -> None:
    new_run().close()
    folder = store.home.parent
    (folder / "train.py").touch()
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=180)
    listed = subprocess.run(
        ["git", "ls-files"], cwd=folder, check=True, timeout=180, capture_output=True, text=True
    )
    assert listed.stdout.split() == ["train.py"]


def test_a_gitignore_that_is_there_is_not_changed(
    store: Store, new_run: Callable[..., RunWriter]
) -> None:
    store.home.mkdir()
    (store.home / ".gitignore").write_text("mine\n")
    new_run().close()
    assert (store.home / ".gitignore").read_text() == "mine\n"


def test_a_store_behind_a_link_changes_no_repository_there(
    store: Store, new_run: Callable[..., RunWriter]
) -> None:
    """An unpacked archive may hold `.rerail` as a link to any folder."""
    repository = store.home.parent / "repository"
    repository.mkdir()
    store.home.symlink_to(repository)
    new_run().close()
    assert (repository / "runs").is_dir()
    assert not (repository / ".gitignore").exists()
