"""A store whose disk stops answering: the command goes on while nothing can be written.

The disk is an ext4 file system in a file, stopped by fsfreeze. Nothing here measures time: the
program does one turn of its loop whenever it is asked, and is asked while the disk is stopped.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from run_driver import DEADLINE_SECONDS, rerail_run

from rerail.store import RunFolder, Store, agent_memory

TURNS = 50
BYTES = 64 << 20
ANSWER_SECONDS = 60.0  # a guard
FROZEN_SECONDS = 300  # at most

LOOP = """
import os, sys
{before}
asked, answers = open(sys.argv[1], "rb", buffering=0), open(sys.argv[2], "wb", buffering=0)
turn = 0
while asked.read(1):
    turn += 1
    {turn}
    answers.write(b".")
"""
# What the hooks do: a store into the box, a child with a box, a program with files of its own.
PLAIN = LOOP.format(
    before="import subprocess; box = sys.modules['rerail_box']",
    turn="""box.put_epoch(turn)
    if turn % 10 == 0:
        child = os.fork()
        if child == 0: os._exit(0)
        os.waitpid(child, 0)
        subprocess.run([sys.executable, "-c", "pass"], check=True)""",
)
TRAINING = LOOP.format(
    before="""import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)""",
    turn="""optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()""",
)


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rescue: subprocess.Popen[bytes] | None = None

    def freeze(self) -> None:
        """For a while: also if these tests are killed, the disk is thawed."""
        words = ["sh", "-c", f'sleep {FROZEN_SECONDS}; exec fsfreeze -u "$1"', "sh", self.folder]
        self._rescue = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
        subprocess.run(["fsfreeze", "-f", self.folder], check=True, timeout=60)

    def thaw(self) -> None:
        subprocess.run(["fsfreeze", "-u", self.folder], timeout=60, capture_output=True)
        if self._rescue is not None:
            os.killpg(self._rescue.pid, signal.SIGKILL)
            self._rescue.wait(60)
            self._rescue = None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount and freeze a file system")
    for name in ("mkfs.ext4", "mount", "umount", "fsfreeze"):
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} here")
    image, folder = tmp_path / "disk.img", tmp_path / "dïsk one"
    with image.open("wb") as file:
        file.truncate(BYTES)
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, timeout=60)
    if subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True).returncode:
        pytest.skip("no loop device can be mounted here")
    disk = Disk(folder)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "--lazy", folder], timeout=60)


class Recorded:
    """The loop under `rerail run`, asked turn by turn through pipes that are on another disk."""

    def __init__(self, home: Path, place: Path, code: str) -> None:
        names = place / "asked", place / "answers"
        for name in names:
            os.mkfifo(name)
        self.home = home
        self._ends = [os.open(name, os.O_RDWR) for name in names]
        command = [sys.executable, "-c", code, *map(str, names)]
        self.process = subprocess.Popen(
            rerail_run(home, *command), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def do_turns(self, count: int, seconds: float = DEADLINE_SECONDS) -> None:
        asked, answers = self._ends
        for turn in range(count):
            os.write(asked, b"x")
            ready, _, _ = select.select([answers], [], [], seconds)
            assert ready, f"the loop stands in turn {turn}"
            os.read(answers, 1)

    @property
    def folder(self) -> RunFolder:
        return Store(self.home).resolve("last")

    def finish(self) -> int:
        for end in self._ends:
            os.close(end)
        self._ends = []
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        for end in self._ends:
            os.close(end)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_SECONDS)
        if self.process.stderr is not None:
            self.process.stderr.close()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["plain", "training"])
def test_the_loop_goes_on_while_the_disk_of_the_store_stands(
    disk: Disk, tmp_path: Path, kind: str
) -> None:
    if kind == "training" and find_spec("torch") is None:
        pytest.skip("torch is not installed")
    run = Recorded(disk.folder / ".rerail", tmp_path, PLAIN if kind == "plain" else TRAINING)
    try:
        run.do_turns(TURNS)
        if agent_memory.find(run.folder.path) is None:
            pytest.skip("this machine has no memory file system with room for the agent")
        disk.freeze()
        run.do_turns(TURNS, ANSWER_SECONDS)
        disk.thaw()
        assert run.finish() == 0
    finally:
        disk.thaw()
        run.close()
    main = max(run.folder.boxes(), key=lambda box: (box.epoch or 0, box.optimizer_steps))
    assert (main.epoch if kind == "plain" else main.optimizer_steps) == 2 * TURNS
    assert agent_memory.find(run.folder.path) is None
