"""Standard output and error that take any text.

A file name need not be Unicode, and neither need what a damaged record holds. Such a character is
printed as an escape; in JSON that is its proper spelling.
"""

from __future__ import annotations

import io
import sys


def print_anything() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
