"""A store whose disk does not answer costs the record, and never the command.

A stopped writing process stands for a disk that hangs: nothing is stored until it goes on. One test
freezes a real file system.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_driver import DEADLINE_SECONDS, is_alive, python, read_line, rerail_run, wait_until

from rerail.platform.proc_files import read_stat
from rerail.store import RunFolder, Store

# Prints a line of the asked size for each number that it reads, and ends with 3.
ANSWERS = (
    "import sys",
    "print('up', flush=True)",
    "for line in sys.stdin:",
    "    print(line.strip(), '#' * int(line), flush=True)",
    "sys.exit(3)",
)


class Conversation:
    """A recorded command that answers when it is asked."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            rerail_run(home, *python(*ANSWERS)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert read_line(self.process) == b"up\n"
        self.said = b"up\n"
        self.folder: RunFolder = Store(home).resolve("last")

    def asks(self, size: int) -> None:
        """Return when the answer has come through the recorder."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"%d\n" % size)
        answer = b"%d %s\n" % (size, b"#" * size)
        got = b""
        while len(got) < len(answer):
            got += self.process.stdout.read(len(answer) - len(got))
        assert got == answer
        self.said += got

    def ends(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEADLINE_SECONDS)

    def kept(self) -> bytes:
        return (self.folder.path / "output.log").read_bytes()

    def missing(self) -> dict[str, str]:
        events = (event.data for event in self.folder.events() if event.kind == "missing")
        return {event["what"]: event["why"] for event in events}


def helper_of(recorder: int, name: str) -> int:
    for child in Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text().strip() == name:
            return int(child)
    pytest.skip(f"{name} is not among the helpers on this system")


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Conversation]:
    talk = Conversation(tmp_path)
    yield talk
    if talk.process.poll() is None:
        talk.process.kill()
        talk.process.wait()


def test_output_goes_on_while_nothing_can_be_stored(talk: Conversation) -> None:
    writer = helper_of(talk.process.pid, "rerail-writer")
    os.kill(writer, signal.SIGSTOP)
    try:
        for _ in range(30):
            talk.asks(20_000)  # more than the pipes and sockets between us hold
    finally:
        os.kill(writer, signal.SIGCONT)
    assert talk.ends() == 3
    assert talk.kept() == talk.said
    assert "output" not in talk.missing()


@pytest.mark.thorough
def test_what_does_not_fit_into_memory_is_counted(talk: Conversation) -> None:
    writer = helper_of(talk.process.pid, "rerail-writer")
    talk.asks(10)
    os.kill(writer, signal.SIGSTOP)
    try:
        for _ in range(25):
            talk.asks(2_000_000)
    finally:
        os.kill(writer, signal.SIGCONT)
    talk.asks(77)
    assert talk.ends() == 3
    dropped = [e.data for e in talk.folder.events() if e.kind == "output-dropped"]
    assert sum(each["bytes"] for each in dropped) > 0
    parts = [path.read_bytes() for path in sorted(talk.folder.path.glob("output*.log"))]
    kept = b"".join(parts)
    assert len(kept) + sum(each["bytes"] for each in dropped) == len(talk.said)
    newlines = kept.count(b"\n") + sum(each["lines"] for each in dropped)
    assert newlines == talk.said.count(b"\n")
    assert talk.said.startswith(parts[0][:100]) and talk.said.endswith(kept[-1000:])


@pytest.mark.thorough
def test_a_command_that_ends_meanwhile_is_not_kept_waiting_for_ever(talk: Conversation) -> None:
    writer = helper_of(talk.process.pid, "rerail-writer")
    os.kill(writer, signal.SIGSTOP)
    try:
        for _ in range(30):
            talk.asks(20_000)
        assert talk.ends() == 3
        assert is_alive(writer) and talk.folder.info().state == "running"
    finally:
        os.kill(writer, signal.SIGCONT)
    wait_until(lambda: talk.folder.info().state == "ended", "the rest of the record")
    outcome = talk.folder.info().outcome
    assert outcome is not None and outcome.exit_code == 3
    assert talk.kept() == talk.said


def test_without_its_writing_process_the_recorder_writes_itself(talk: Conversation) -> None:
    writer = helper_of(talk.process.pid, "rerail-writer")
    os.kill(writer, signal.SIGKILL)
    wait_until(lambda: (stat := read_stat(writer)) is None or stat.is_over, "its end")
    for size in (10, 100_000, 20):
        talk.asks(size)
    assert talk.ends() == 3
    assert talk.kept() == talk.said
    assert "killed" in talk.missing()["writing process"]
    outcome = talk.folder.info().outcome
    assert outcome is not None and outcome.exit_code == 3


def test_what_a_killed_recorder_was_given_is_stored(talk: Conversation) -> None:
    writer = helper_of(talk.process.pid, "rerail-writer")
    os.kill(writer, signal.SIGSTOP)
    talk.asks(1000)
    os.kill(talk.process.pid, signal.SIGKILL)
    os.kill(writer, signal.SIGCONT)
    recorder = talk.process.pid
    wait_until(lambda: talk.folder.info().recorder_pid != recorder, "the guardian to take over")
    talk.asks(30)
    assert talk.process.stdin is not None
    talk.process.stdin.close()
    wait_until(lambda: talk.folder.info().state == "ended", "the end of the record")
    assert talk.kept() == talk.said
    wait_until(lambda: not is_alive(writer), "the end of the writing process")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that can be frozen."""
    if os.geteuid() != 0 or shutil.which("fsfreeze") is None or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root can freeze a file system, and fsfreeze and mkfs.ext4 are needed")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@pytest.mark.thorough
def test_a_real_frozen_file_system(disk: Path) -> None:
    talk = Conversation(disk / "store")
    subprocess.run(["fsfreeze", "--freeze", str(disk)], check=True)
    try:
        for _ in range(30):
            talk.asks(20_000)
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(disk)], check=True)
    assert talk.ends() == 3
    assert talk.kept() == talk.said
