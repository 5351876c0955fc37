"""Stacks that the process writes itself, when the agent inside it is asked by a signal.

In: the process's black box, which names the signal. Out: Python stacks, read from the .stacks
file that faulthandler fills. Promises: the signal is sent only if the process is the one that
the box belongs to, has a handler for it, does not block it, and its descriptor still is the
.stacks file: otherwise a signal could end the process, or text could land in a user's file.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from pathlib import Path

from rerail.agent import rerail_layout as layout
from rerail.platform.patterns import linear
from rerail.platform.proc_files import read_start_ticks
from rerail.records import PythonFrame, ThreadStack
from rerail.store import AgentDir, open_regular, read_head

_THREAD = linear(
    r"(?P<current>Current thread|Thread) 0x(?P<id>[0-9a-f]{1,16})(?: \[(?P<name>.*)\])?"
    r" \(most recent call first\):"
)
_FRAME = linear(r'  File "(?P<file>.*)", line (?P<line>\d{1,10}|\?\?\?) in (?P<name>.*)$')
_MOST_TEXT_BYTES = 1 << 20
# By the file of the answer: two forked children may answer into the same one.
_being_asked: dict[Path, threading.Lock] = {}


def take(
    pid: int, start_ticks: int, agent_dir: AgentDir, seconds: float
) -> list[ThreadStack] | None:
    """Ask, and wait for the answer; None if the process cannot be asked or does not answer."""
    deadline = time.monotonic() + seconds
    head = read_head(agent_dir, pid, start_ticks)
    if head is None:
        return None
    signal, answer = _signal_of(head, pid), _answer_of(head, pid, agent_dir)
    if signal is None or answer is None:
        return None
    one_at_a_time = _being_asked.setdefault(answer, threading.Lock())
    if not one_at_a_time.acquire(timeout=seconds):
        return None
    try:
        before = answer.stat().st_size
        if read_start_ticks(pid) != start_ticks:
            return None
        os.kill(pid, signal)
        text = _wait_for_answer(answer, before, deadline)
    except OSError:
        return None
    finally:
        one_at_a_time.release()
    return parse_faulthandler(text) if text else None


def _number(head: bytes, name: str) -> int:
    return int(struct.unpack_from("=q", head, layout.HEAD[name])[0])


def _signal_of(head: bytes, pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    signal = _number(head, "stacks_signal")
    if not 0 < signal <= 64:
        return None
    masks = dict(re.findall(r"^(SigCgt|SigBlk):\s+([0-9a-f]+)$", status, re.MULTILINE))
    bit = 1 << (signal - 1)
    if not int(masks.get("SigCgt", "0"), 16) & bit or int(masks.get("SigBlk", "0"), 16) & bit:
        return None
    return signal


def _answer_of(head: bytes, pid: int, agent_dir: AgentDir) -> Path | None:
    """The process's own .stacks file, or that of the process that it was forked from."""
    held = Path(f"/proc/{pid}/fd/{_number(head, 'stacks_fd')}")
    try:
        answer = agent_dir / held.readlink().name
        return answer if answer.suffix == ".stacks" and held.samefile(answer) else None
    except OSError:
        return None


def _wait_for_answer(answer: Path, before: int, deadline: float) -> str | None:
    """The text that was added, once it has stopped growing."""
    last, quiet_since = before, None
    while time.monotonic() < deadline:
        try:
            size = answer.stat().st_size
        except OSError:
            return None
        now = time.monotonic()
        if size != last:
            last, quiet_since = size, now
        elif quiet_since is not None and now - quiet_since > 0.05:
            break
        time.sleep(0.01)
    if last <= before:
        return None
    with open_regular(answer) as file:
        file.seek(before)
        return file.read(_MOST_TEXT_BYTES).decode(errors="replace").replace("\0", "")


def parse_faulthandler(text: str) -> list[ThreadStack]:
    """Stacks as faulthandler writes them; thread ids are those of pthread_self()."""
    threads: list[ThreadStack] = []
    for line in text.splitlines():
        if head := _THREAD.match(line):
            threads.append(ThreadStack(int(head["id"], 16), head["name"]))
        elif threads and (frame := _FRAME.match(line)):
            number = int(frame["line"]) if frame["line"].isdigit() else 0
            threads[-1].python.append(PythonFrame(frame["file"], number, frame["name"]))
    return threads
