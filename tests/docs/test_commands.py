"""Every command of rerail that a page shows could be typed: it exists, and so do its options.

Blocks of `console` are run (test_recipes.py). What stands in other blocks and in the text is only
parsed: it names runs, files, clusters and hours of training that are the reader's own.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from doc_pages import DOCS, ROOT, blocks_of

from rerail.cli import group
from rerail.cli._discovery import command_names
from rerail.errors import RerailError

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
# What a page writes that is no command: a synopsis, several at once, a sentence that begins so.
_NO_COMMAND = re.compile(r"\[OPTIONS\]|\[--|\[RUN|\[ID|\[FILE|\[-- |\[CAUSE|\{bash|\| |\||, ")
# What follows a command on its line: a word about it, or another command.
_REST = re.compile(r"\s{2,}|\s+#\s|\s*(?:;|2>|>|\||&&|&)\s+")
_SPAN = re.compile(r"(?<!`)`(rerail [^`\n]+)`(?!`)")
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)


def shown_commands(page: Path) -> Iterator[str]:
    for block in blocks_of(page):
        text = re.sub(r"\\\n\s*", "", "\n".join(block.lines))
        for line in text.splitlines():
            typed = line.strip().removeprefix("$ ")
            if typed.startswith("rerail ") and "[OPTIONS]" not in typed:
                yield _REST.split(typed)[0]
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for span in _SPAN.findall(text):
        if not _NO_COMMAND.search(span):
            yield _REST.split(span)[0]


def what_is_wrong_with(command: str) -> str | None:
    try:
        words = shlex.split(command.replace("…", "ANY"))[1:]
    except ValueError:
        return None  # a quotation that goes on in the next line of a page's table
    if not words or words[0] not in command_names():
        # A file, a placeholder, or words of rerail's own; what is mistyped is near to a command.
        near = difflib.get_close_matches(words[0], command_names(), 1, 0.75) if words else []
        return f"there is no command {words[0]}, but {near[0]}" if near else None
    try:
        with group.make_context("rerail", words) as context:
            name, inner, rest = group.resolve_command(context, words)
            assert name is not None and inner is not None
            _parse(inner, name, rest, context)
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError, RerailError):
        return None  # --help, or a fragment that names the option and leaves out the rest
    except click.BadParameter:  # and what is missing
        return None  # a placeholder in the place of a number: --restarts N
    except click.UsageError as error:
        return None if "requires an argument" in error.message else error.message
    return None


def _parse(command: click.Command, name: str, words: list[str], parent: click.Context) -> None:
    with command.make_context(name, list(words), parent=parent) as context:
        if isinstance(command, click.Group) and context.protected_args:
            inner_name, inner, rest = command.resolve_command(
                context, [*context.protected_args, *context.args]
            )
            assert inner_name is not None and inner is not None
            _parse(inner, inner_name, rest, context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_could_be_typed(page: Path) -> None:
    wrong = {command: what_is_wrong_with(command) for command in shown_commands(page)}
    assert {command: why for command, why in wrong.items() if why} == {}


def test_what_cannot_be_typed_is_noticed() -> None:
    assert what_is_wrong_with("rerail run --stal 3 -- python train.py") is not None
    assert what_is_wrong_with("rerail explian last") is not None
    assert what_is_wrong_with("rerail run --stall N -- python train.py") is None


def test_commands_were_found() -> None:
    assert sum(1 for page in PAGES for _ in shown_commands(page)) > 200
