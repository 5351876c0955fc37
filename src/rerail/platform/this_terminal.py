"""Which terminal was this typed in?

In: nothing. Out: a text that is equal for all commands of one shell in one terminal on this boot,
and empty where there is no terminal: a scheduler's job, a notebook, a service. Redirected streams
do not matter. Nothing is opened but /proc/self/stat.
"""

from __future__ import annotations

import os
from pathlib import Path


def this_terminal() -> str:
    """ "34817:4242": the terminal's device, and the process that leads its session."""
    try:
        text = Path("/proc/self/stat").read_bytes()
        # The name in parentheses may hold anything, spaces and parentheses too.
        fields = text[text.rindex(b")") + 2 :].split()
        session, device = int(fields[3]), int(fields[4])
    except (OSError, ValueError, IndexError):
        return _without_proc()
    return f"{device}:{session}" if device else ""


def _without_proc() -> str:
    for descriptor in (0, 1, 2):
        try:
            return f"{os.ttyname(descriptor)}:{os.getsid(0)}"
        except OSError:
            continue
    return ""
