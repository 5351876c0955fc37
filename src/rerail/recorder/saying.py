"""A line of the recorder's own on the user's terminal, while the command runs."""

from __future__ import annotations

import os
import sys

from rerail.platform.os_text import shown


def say(text: str, is_quiet: bool = False) -> None:
    """On standard error. A terminal may be in raw mode, where a newline alone does not return."""
    if is_quiet:
        return
    try:
        ending = "\r\n" if sys.stderr.isatty() else "\n"
        os.write(2, f"rerail: {shown(text)}{ending}".encode(errors="replace"))
    except OSError:
        pass
