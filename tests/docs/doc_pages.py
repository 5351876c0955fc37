"""The pages of the documentation as something that can be run.

In: a Markdown file. Out: its fenced blocks; in a folder, the files and commands of them. A block is

- ```python title="train.py"```: a file that the page asks for, written as it stands;
- ```console```: lines with `$ ` are typed into a bash in that folder; the lines below them are what
  is shown. Each of those, without its numbers, has to come; an `…` stands for anything.

A comment before a block says more: `<!-- not run: reason -->`, `<!-- ends with: 1 -->`. A comment
anywhere says what a page needs: `<!-- needs: torch, accelerate -->`, `<!-- slow -->`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOREIGN = ROOT / ".venv-foreign" / "bin" / "python"
# What a shell says of a command that could not be run as it stands.
WRONG_STATUSES = (2, 126, 127)

# The line of a source file is not such a number: it is the same every time.
_NUMBER = re.compile(r"(?<!\.py:)(?<![\d.,])\d+(?:[.,]\d+)*")
_FENCE = re.compile(r"^(?P<indent> *)(?P<mark>```+)(?P<info>[^\n`]*)$")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)


@dataclass
class Block:
    page: Path
    line: int
    language: str
    title: str
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def why_not_run(self) -> str | None:
        return self._note("not run")

    @property
    def status(self) -> int | None:
        text = self._note("ends with")
        return int(text) if text else None

    def _note(self, name: str) -> str | None:
        found = [n.partition(":")[2].strip() for n in self.notes if n.startswith(f"{name}:")]
        return found[0] if found else None

    @property
    def typed(self) -> list[str]:
        """What is typed, with the lines that a backslash continues."""
        found: list[str] = []
        goes_on = False
        for line in self.lines:
            if line.startswith("$ ") or goes_on:
                text = line.removeprefix("$ ")
                if goes_on:
                    found[-1] += f"\n{text}"
                else:
                    found.append(text)
                goes_on = text.endswith("\\")
        return found

    @property
    def shown(self) -> list[str]:
        goes_on = False
        found = []
        for line in self.lines:
            if line.startswith("$ ") or goes_on:
                goes_on = line.endswith("\\")
            else:
                found += [piece for piece in line.split("…") if piece.strip()]
        return found


@cache
def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    notes: list[str] = []
    mark = indent = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if mark:
            if fence and fence["mark"] == mark and not fence["info"].strip():
                mark = ""
            else:
                found[-1].lines.append(line.removeprefix(indent))
        elif fence:
            mark, indent = fence["mark"], fence["indent"]
            language, _, rest = fence["info"].strip().partition(" ")
            title = re.search(r'title="([^"]+)"', rest)
            found.append(Block(page, number, language, title[1] if title else "", [], notes))
            notes = []
        elif comments := _COMMENT.findall(line):
            notes = [*notes, *comments]
        elif line.strip():
            notes = []
    return found


def page_notes(page: Path) -> list[str]:
    return _COMMENT.findall(page.read_text(encoding="utf-8"))


def needs_of(page: Path) -> list[str]:
    texts = [note.partition(":")[2] for note in page_notes(page) if note.startswith("needs:")]
    return [name.strip() for text in texts for name in text.split(",")]


@cache
def python_with(modules: tuple[str, ...]) -> Path | None:
    """The interpreter of these tests, or that of `make foreign`: the first that has them all."""
    code = "import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    for python in (Path(sys.executable), FOREIGN):
        if python.exists():
            done = subprocess.run([python, "-c", code, *modules], capture_output=True, timeout=180)
            if done.returncode == 0:
                return python
    return None


def what_is_missing(page: Path) -> str | None:
    """Why the page cannot be run here: a module, or a program as in `program jq`."""
    needed = needs_of(page)
    programs = [name.removeprefix("program ") for name in needed if name.startswith("program ")]
    if gone := [name for name in programs if shutil.which(name) is None]:
        return f"there is no {' and no '.join(gone)} here"
    modules = tuple(name for name in needed if not name.startswith("program "))
    if python_with(modules) is None:
        return f"{', '.join(modules)}: not installed (`make foreign` installs them)"
    return None


class Shell:
    """A folder in which the blocks of a page are run, one after the other."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        modules = tuple(name for name in needs_of(page) if not name.startswith("program "))
        python = python_with(modules) or Path(sys.executable)
        programs = folder / "bin"
        programs.mkdir()
        for name in ("python", "python3"):
            _write_starter(programs / name, [str(python)])
        if not (python.parent / "torchrun").exists():  # installed for another environment
            _write_starter(programs / "torchrun", [str(python), "-m", "torch.distributed.run"])
        _write_starter(programs / "rerail", [sys.executable, "-m", "rerail"])
        path = os.pathsep.join([str(programs), str(python.parent), os.environ.get("PATH", "")])
        environ = {n: v for n, v in os.environ.items() if not n.startswith("RERAIL_")}
        self._environ = {**environ, "PATH": path, "HOME": str(folder), "RERAIL_CONFIG": ""}

    def run(self, block: Block) -> tuple[int, str]:
        script = "\n".join(block.typed)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def write(self, block: Block) -> None:
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(block.lines) + "\n", encoding="utf-8")


def _write_starter(path: Path, words: list[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)


def run_page(page: Path, folder: Path) -> list[str]:
    """Run it from the top; what went otherwise than the page says."""
    shell = Shell(folder, page)
    problems = []
    for block in blocks_of(page):
        if block.title:
            shell.write(block)
        elif block.language == "console" and block.why_not_run is None:
            status, output = shell.run(block)
            problems += [
                f"{block.where}: {what}\n{output}" for what in _judge(block, status, output)
            ]
    return problems


def _judge(block: Block, status: int, output: str) -> list[str]:
    found = []
    if block.status is not None and status != block.status:
        found.append(f"ended with {status} instead of {block.status}")
    elif block.status is None and status in WRONG_STATUSES:
        found.append(f"ended with {status}")
    if "a defect of rerail itself" in output or "cannot record this run" in output:
        found.append("rerail itself failed")
    plain = without_numbers(output)
    return found + [
        f"does not say {line!r}" for line in block.shown if without_numbers(line) not in plain
    ]


def without_numbers(text: str) -> str:
    """What is the same on every machine: no numbers, folders, or ids of runs."""
    text = re.sub(r"(?<![\w/])/[\w./-]*/", "", text)
    text = re.sub(r"\b[0-9a-f]{4}\b(?=[ \n]|$)", "N", text)
    return " ".join(_NUMBER.sub("N", text).split())
