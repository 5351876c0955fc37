"""The safe changes as a shell snippet, written and never run.

In: findings. Out: text for a file that a person reads and sources. Only what changes no result is
in it: limits and variables, never an installation.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rerail.errors import UsageError
from rerail.platform.os_text import to_bytes
from rerail.platform.user_files import create_user_file
from rerail.preflight.audit.finding import Finding

NAME = "rerail-fix"
_MOST_FILES = 1000


def snippet(findings: Iterable[Finding]) -> str:
    """ "" where there is nothing that could be changed safely."""
    lines: list[str] = []
    for finding in findings:
        new = [line for line in finding.fix if line not in lines]
        if new:
            lines += [f"# {finding.title}", *new]
    if not lines:
        return ""
    return "\n".join(["# Read it, then: source this file in the shell of the run.", *lines, ""])


def write(text: str, folder: Path) -> Path:
    """Write the text into a new file in the folder, and return its path."""
    for number in range(1, _MOST_FILES + 1):
        path = folder / (f"{NAME}.sh" if number == 1 else f"{NAME}-{number}.sh")
        try:
            create_user_file(path, to_bytes(text))
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}",
                "Go to a folder that you may write, and type it again.",
            ) from None
    raise UsageError(
        f"{folder} holds {_MOST_FILES} files named {NAME} already", "Remove those that you read."
    )
