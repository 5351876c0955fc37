"""`rerail isolate --edits`, `--bisect` and `git:REV` in real repositories, with real trials."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

Ask = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """\
import pathlib
import helping

NAME = "a"
# how far
SIZE = 3


def work(size):
    total = 0
    for at in range(size):
        total += at
    return total


assert pathlib.Path("data.txt").read_text() == "data"  # not in git
print(work(SIZE), helping.value())
"""
HELPING = """\
def value():
    return 1
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "helping.py").write_text(HELPING)
    (folder / "data.txt").write_text("data")
    git(folder, "add", "train.py", "helping.py")
    git(folder, "commit", "--quiet", "-m", "It works")
    return folder


@pytest.fixture
def ask(repository: Path, tmp_path: Path) -> Ask:
    def run(*arguments: str, tool: str = "isolate") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(sys.executable, "-m", "rerail", tool, "--yes"),
                *("--home", str(tmp_path / "home"), *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=repository,
        )

    return run


def state_of(folder: Path) -> tuple[Any, ...]:
    """Everything of the user's that must stay as it is."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    index = (folder / ".git" / "index").read_bytes()
    return (
        *(files, index, git(folder, "rev-parse", "HEAD"), git(folder, "stash", "list")),
        *(git(folder, "worktree", "list"), git(folder, "branch", "--list")),
    )


def edit(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)


COMMAND = ("--", sys.executable, "train.py")


def test_the_edit_that_brought_the_failure_is_found(repository: Path, ask: Ask) -> None:
    edit(repository / "train.py", ('"a"', '"b"'), ("SIZE = 3", "SIZE = 4"))
    edit(repository / "helping.py", ("return 1", "return 1 // 0"))
    before = state_of(repository)
    done = ask("--json", "--edits", *COMMAND)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["changes"] == ["edit:helping.py:2"], done.stderr
    assert "taking back your edit helping.py:2 removes the failure" in done.stderr
    assert "linked into them: data.txt" in done.stderr
    assert state_of(repository) == before
    assert list((repository.parent / "home" / "worktrees").iterdir()) == []


def test_none_of_the_edits_matters(repository: Path, ask: Ask) -> None:
    edit(repository / "helping.py", ("return 1", "return 1 // 0"))
    git(repository, "commit", "--quiet", "-am", "It breaks")
    edit(repository / "train.py", ('"a"', '"b"'), ("SIZE = 3", "SIZE = 4"))
    done = ask("--json", "--edits", *COMMAND)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["status"] == "none-of-these"
    assert "None of your 2 edits" in done.stderr


@pytest.mark.thorough
def test_the_commit_that_brought_a_failure_is_found(repository: Path, ask: Ask) -> None:
    good = git(repository, "rev-parse", "HEAD").strip()
    for number in range(1, 11):
        edit(repository / "train.py", (f"SIZE = {number + 2}\n", f"SIZE = {number + 3}\n"))
        if number == 4:
            edit(repository / "helping.py", ("return 1", "return 1 // 0"))
        git(repository, "commit", "--quiet", "-am", f"Commit {number}")
    before = state_of(repository)
    done = ask("--json", "--confidence", "0.9", "--bisect", f"{good}..HEAD", *COMMAND)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [each["subject"] for each in document["bisect"]["first_bad"]] == ["Commit 4"]
    assert document["changes"] == [f"git:{git(repository, 'rev-parse', 'HEAD~7').strip()}"]
    assert state_of(repository) == before


@pytest.mark.thorough
def test_a_revision_is_a_change_for_isolate_and_verify(repository: Path, ask: Ask) -> None:
    edit(repository / "helping.py", ("return 1", "return 1 // 0"))
    before = state_of(repository)
    tried = ask("--json", "--try", "git:HEAD", "--try", "OTHER=1", *COMMAND)
    assert json.loads(tried.stdout)["changes"] == ["git:HEAD"], tried.stderr
    proven = ask("--json", "--with", "git:HEAD", *COMMAND, tool="verify")
    assert "with git:HEAD: ended well" in proven.stderr  # too short a run to prove anything
    assert state_of(repository) == before


def test_a_package_installed_for_development_is_the_one_of_the_trial(
    repository: Path, ask: Ask, tmp_path: Path
) -> None:
    """Its folder stands in a .pth file by its full name, which every version would import."""
    package = repository / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("SIZE = 1\n")
    edit(repository / "train.py", ("import helping", "import helping, package"))
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "A package")
    edit(package / "__init__.py", ("= 1", "= 1 // 0"))
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "package.pth").write_text(f"{repository / 'src'}\n")
    done = ask("--json", "--edits", "--", str(venv / "bin" / "python"), "train.py")
    assert json.loads(done.stdout)["changes"] == ["edit:src/package/__init__.py:1"], done.stderr


def test_an_interrupted_search_leaves_no_worktree(repository: Path, tmp_path: Path) -> None:
    good = git(repository, "rev-parse", "HEAD").strip()
    edit(repository / "train.py", ("import helping", "import helping, time"))
    with (repository / "train.py").open("a") as file:
        file.write("print('is there', flush=True)\ntime.sleep(600)\n")
    git(repository, "commit", "--quiet", "-am", "It hangs")
    before = state_of(repository)
    home = tmp_path / "home"
    words = [
        "-m",
        "rerail",
        "isolate",
        "--yes",
        "--home",
        str(home),
        "--bisect",
        f"{good}..",
        *COMMAND,
    ]
    with subprocess.Popen([sys.executable, *words], cwd=repository, stderr=subprocess.PIPE) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if b"trial 1" in line:
                break
        run.send_signal(signal.SIGINT)
        run.stderr.read()
        assert run.wait(180) == 130
    assert state_of(repository) == before
    assert list((home / "worktrees").iterdir()) == []


def test_a_revision_is_listed(ask: Ask) -> None:
    listed = json.loads(ask("--json", "--list", *COMMAND).stdout)["changes"]
    assert {"text": "git:HEAD~1", "applies": True}.items() <= listed[0].items()


@pytest.mark.thorough
def test_what_cannot_be_asked_is_said_in_a_line(repository: Path, ask: Ask, tmp_path: Path) -> None:
    def error_of(*arguments: str) -> str:
        done = ask(*arguments, *COMMAND)
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert "no revision 'nowhere'" in error_of("--try", "git:nowhere")
    assert "no edit to take back" in error_of("--edits")
    assert "a good revision, two dots" in error_of("--bisect", "HEAD")
    assert "no commit between" in error_of("--bisect", "HEAD..HEAD")
    assert "names no revision" in error_of("--try", "git:")
    shutil.rmtree(repository / ".git")
    assert "not in the working tree of a git repository" in error_of("--edits")
    git(repository, "init", "--quiet")
    assert "no commit yet" in error_of("--edits")
