"""`last`: the newest run, or the one of this terminal where several were under way at once."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.platform.this_terminal import this_terminal
from rerail.records import Outcome
from rerail.store import RunWriter, Store, names

OK = Outcome("ok", "well")
HERE, ELSEWHERE = "34817:100", "34818:200"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(names, "this_terminal", lambda: HERE)
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / ".rerail")


def begin(store: Store, terminal: str = "", cwd: str = "/elsewhere") -> RunWriter:
    writer = store.create_run(["python", "train.py"], cwd, {"terminal": terminal}, bool(terminal))
    writer.update_info(root_pid=1)  # the command has started: nothing is left blank any more
    return writer


def test_of_two_live_runs_the_one_of_this_terminal(store: Store) -> None:
    mine = begin(store, HERE)
    begin(store, ELSEWHERE)
    assert store.resolve("last").id == mine.id


def test_of_two_live_runs_of_this_terminal_the_newer(store: Store) -> None:
    begin(store, HERE)
    newer = begin(store, HERE)
    assert store.resolve("last").id == newer.id


def test_without_a_terminal_the_working_folder_decides(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "this_terminal", lambda: "")
    mine = begin(store, cwd=str(Path.cwd()))
    begin(store)
    assert store.resolve("last").id == mine.id


def test_runs_that_overlapped_and_ended_are_told_apart_too(store: Store) -> None:
    mine, other = begin(store, HERE), begin(store, ELSEWHERE)
    other.finish(OK, 1.0)
    mine.finish(OK, 5.0)
    assert store.resolve("last").id == mine.id


def test_a_run_that_was_over_before_is_never_the_last(store: Store) -> None:
    begin(store, HERE).finish(OK, 0.0)
    newest = begin(store, ELSEWHERE)
    assert store.resolve("last").id == newest.id


def test_a_terminal_of_another_boot_is_not_this_one(store: Store) -> None:
    old = begin(store, HERE)
    old.update_info(recorder_scope="another boot")
    newest = begin(store, ELSEWHERE)
    assert store.resolve("last").id == newest.id


@pytest.mark.parametrize("rubbish", ["{", "[]", '{"started_unix": "x"}', '{"started_unix": []}'])
def test_a_broken_newest_run_is_still_the_last(store: Store, rubbish: str) -> None:
    begin(store, HERE).finish(OK, 1.0)
    broken = store.runs / "20990101-000000-ffff"
    broken.mkdir()
    (broken / "run.json").write_text(rubbish)
    assert store.resolve("last").id == broken.name


def in_a_terminal(*command: str) -> str:
    """What a command prints that leads a session of its own on a new terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.execv(command[0], command)
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        pass  # how a terminal says that nobody holds its other end
    os.waitpid(pid, 0)
    os.close(terminal)
    return said.decode().strip()


ASK = "from rerail.platform.this_terminal import this_terminal as t; print(t())"


def test_commands_of_one_shell_share_their_terminal_and_others_do_not() -> None:
    python = shlex.quote(sys.executable)
    both = f"{python} -c '{ASK}'; {python} -c '{ASK}' </dev/null | cat"
    first, second = in_a_terminal("/bin/sh", "-c", both).split()
    assert first == second != ""
    assert in_a_terminal("/bin/sh", "-c", both).split()[0] != first


def test_without_a_terminal_it_is_empty() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ASK], start_new_session=True, capture_output=True, check=True
    )
    assert found.stdout.strip() == b""
    assert isinstance(this_terminal(), str)
