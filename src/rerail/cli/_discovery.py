"""Which commands there are, without importing any of them.

In: the files of this folder. Out: names, one-line summaries (the first line of each file's
docstring), and the one command that was asked for. A command is a file NAME.py with a click command
called `command` in it; the file appears and the command is there.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import click

# The order of a person's day; what is not named here follows by its name.
_ORDER = [
    *("run", "explain", "isolate", "verify", "check", "study"),
    *("runs", "show", "watch", "ui", "stacks", "report", "pack", "causes", "rm"),
    *("config", "completion", "mcp", "skill"),
]


def command_names() -> list[str]:
    here = Path(__file__).parent
    names = [path.stem for path in here.glob("[!_]*.py")]
    return sorted(names, key=lambda n: (_ORDER.index(n) if n in _ORDER else len(_ORDER), n))


def load_command(name: str) -> click.Command:
    command = importlib.import_module(f"rerail.cli.{name}").command
    if not isinstance(command, click.Command):
        raise TypeError(f"rerail.cli.{name}.command is not a click command")
    return command


def summary_of(name: str) -> str:
    """The first line of the file's docstring: parsed, not run, so that help is quick."""
    path = Path(__file__).parent / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first_line = text.partition("\n")[0].strip().strip("`")
    told = first_line.removeprefix(f"rerail {name}").lstrip("`:—- ")
    return (told or first_line).rstrip(".")
