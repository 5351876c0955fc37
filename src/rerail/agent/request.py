"""Asks a live process for its Python stacks: a signal that its faulthandler answers into a file.

Comes in: the agent's folder, a pid and its start time. Goes out: the text that the process wrote,
or None. Promises: no signal goes to a process that would die of it or write somewhere else: the
kernel must list the signal as caught (SigCgt), and the descriptor must still be the .stacks file.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from rerail.agent.stub import rerail_layout as layout


def ask_for_stacks(
    agent_dir: Path, pid: int, start_ticks: int, timeout_seconds: float = 2.0
) -> str | None:
    """faulthandler's text for all threads of `pid`, or None if it cannot or does not answer."""
    stacks = agent_dir / f"{pid}-{start_ticks}.stacks"
    try:
        head = (agent_dir / f"{pid}-{start_ticks}.box").read_bytes()[: layout.HEAD_SIZE]
        signum, fd = (
            struct.unpack_from("=q", head, layout.HEAD[name])[0]
            for name in ("stacks_signal", "stacks_fd")
        )
        if not (_is_caught(pid, signum) and _start_ticks(pid) == start_ticks):
            return None
        if not Path(f"/proc/{pid}/fd/{fd}").samefile(stacks):
            return None
        before = stacks.stat().st_size
        os.kill(pid, signum)
        return _wait_for_text(stacks, before, timeout_seconds)
    except (OSError, struct.error, ValueError, IndexError):
        return None


def _wait_for_text(stacks: Path, before: int, timeout_seconds: float) -> str | None:
    """The dump has no end mark: it is there when the file has stopped growing."""
    deadline = time.monotonic() + timeout_seconds
    size = before
    while time.monotonic() < deadline:
        time.sleep(0.03)
        now = stacks.stat().st_size
        if now > before and now == size:
            break
        size = now
    with stacks.open("rb") as file:
        file.seek(before)
        return file.read().decode("utf-8", "replace") or None


def _is_caught(pid: int, signum: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return signum > 0 and bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def _start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
