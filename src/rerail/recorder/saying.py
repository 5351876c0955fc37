"""Lines of rerail's own among the output of the command, each on a line of its own.

In: what the command printed to where standard error goes, and what rerail has to say. Out: lines on
standard error; the line that the command left open, such as a progress bar, is ended before.
"""

from __future__ import annotations

import os
import sys

from rerail.platform.os_text import shown

_is_line_open = False  # as the command left it; there is one standard error in a process


def goes_beside_us(descriptor: int) -> bool:
    """Whether it is the same file, pipe or terminal as standard error."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.fstat(2))
    except OSError:
        return False


def note_output(data: bytes) -> None:
    """Take note of what the command printed there."""
    global _is_line_open
    _is_line_open = not data.endswith(b"\n")


def end_open_line() -> str:
    """Return what ends the line that the command left open; it then counts as ended."""
    global _is_line_open
    was_open, _is_line_open = _is_line_open, False
    return _line_end() if was_open else ""


def say(text: str, is_quiet: bool = False) -> None:
    """On standard error, while the command runs."""
    if is_quiet:
        return
    try:
        line = f"{end_open_line()}rerail: {shown(text)}{_line_end()}"
        os.write(2, line.encode(errors="replace"))
    except OSError:
        pass


def _line_end() -> str:
    """A terminal may be in raw mode, where a newline alone does not return."""
    return "\r\n" if sys.stderr.isatty() else "\n"
