"""A task whose folders are shielded sees them as they are and changes nothing in them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from rerail.platform import overlay
from rerail.platform.layers import remove_layers
from rerail.scheduling import Task, open_scheduler

WRITES = """
import os, sqlite3
top = os.getcwd()
assert open("ck/1.pt").read() == "one"
open("ck/2.pt", "w").write("two")
open(top + "/log.txt", "a").write("more")
open("ck/new", "w").write("x"); os.replace("ck/new", top + "/ck/1.pt")
os.remove("old.pt"); os.makedirs("cache/closed"); os.chmod("log.txt", 0o600)
open("cache/closed/file", "w").close(); os.chmod("cache/closed", 0)
base = sqlite3.connect("runs.db"); base.execute("pragma journal_mode=wal")
base.execute("create table t (a)"); base.commit()
print("wrote", sorted(os.listdir("ck")), os.getuid())
"""


def snapshot(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        if "home" not in path.relative_to(folder).parts[:1] and path != folder:
            status = path.stat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


def test_nothing_that_a_shielded_task_writes_reaches_the_folder(tmp_path: Path) -> None:
    folder, layers = tmp_path / "my é project", tmp_path / "layers"
    (folder / "ck").mkdir(parents=True)
    (folder / "ck/1.pt").write_text("one")
    (folder / "old.pt").write_text("old")
    (folder / "log.txt").write_text("begun")
    layers.mkdir()
    if why := overlay.why_not([folder], layers):
        pytest.skip(f"no overlay here: {why}")
    before = snapshot(folder)
    task = Task(
        command=(sys.executable, "-c", WRITES),
        cwd=str(folder),
        home=str(folder / "home"),
        environ=dict(os.environ),
        label="shielded",
        shielded=(str(folder), str(tmp_path / "gone meanwhile")),
        layers=str(layers),
    )
    scheduler = open_scheduler("local", 1)
    running = scheduler.start(task)
    deadline = time.monotonic() + 120
    while not running.is_over():
        assert time.monotonic() < deadline, "the task did not end"
        time.sleep(0.02)
    scheduler.close()
    assert running.problem() is None
    said = Path(str(running.folder()), "output.log").read_text()
    assert f"wrote ['1.pt', '2.pt'] {os.getuid()}" in said
    assert snapshot(folder) == before
    assert (layers / "0-written/ck/2.pt").read_text() == "two"
    remove_layers(layers)
    assert not layers.exists()


def test_a_pipe_that_an_argument_names_leads_outside(tmp_path: Path) -> None:
    folder, layers = tmp_path / "project", tmp_path / "layers"
    folder.mkdir()
    layers.mkdir()
    if why := overlay.why_not([folder], layers):
        pytest.skip(f"no overlay here: {why}")
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    inside = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        task = Task(
            command=("sh", "-c", 'echo told > "$1"', "sh", str(pipe)),
            cwd=str(folder),
            home=str(tmp_path / "home"),
            environ=dict(os.environ),
            label="shielded",
            shielded=(str(folder),),
            layers=str(layers),
        )
        scheduler = open_scheduler("local", 1)
        running = scheduler.start(task)
        deadline = time.monotonic() + 120
        said = b""
        while not said:
            assert time.monotonic() < deadline, "nothing came through the pipe"
            with contextlib.suppress(BlockingIOError):
                said = os.read(inside, 100)
            time.sleep(0.01)
        assert said == b"told\n"
        while not running.is_over():
            assert time.monotonic() < deadline, "the task did not end"
            time.sleep(0.01)
        scheduler.close()
        assert running.problem() is None
    finally:
        os.close(inside)
