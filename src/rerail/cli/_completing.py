"""What a shell may offer in the place of a run, a cause, a change or a command.

In: what was typed so far. Out: at most MOST items, newest runs first. Promises: a store or a
catalogue that cannot be read offers nothing; nothing is printed and nothing raises, since a shell
shows both in the middle of what is being typed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rerail.cli._options import store_to_read

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MOST = 50
_LONGEST_HELP = 50
FILES = ("", None)  # the shell itself offers the files that begin so
Offered = tuple[str, "str | None"]  # a word and what it is
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _quietly(function: Callable[[click.Context, str], Iterable[Offered]]) -> Completer:
    @wraps(function)
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            found = list(function(ctx, incomplete))
        except Exception:
            return []
        if FILES in found:
            return [CompletionItem(incomplete, type="file")]
        fitting = [(word, what) for word, what in found if word.startswith(incomplete)]
        return [CompletionItem(word, help=what) for word, what in fitting[:MOST]]

    return complete


def _runs(ctx: click.Context, incomplete: str) -> list[Offered]:
    """By the end of their id, as lists show them, where that says enough."""
    store = store_to_read(_home(ctx))
    found = [summary.info for summary in store.summaries()]
    keys = [info.id.rpartition("-")[2] for info in found]
    offered: list[Offered] = [("last", "the newest run")]
    for info, key in zip(found, keys, strict=True):
        is_typed_whole = "-" in incomplete or incomplete.startswith(info.id[:3])
        name = info.id if is_typed_whole or keys.count(key) > 1 else key
        offered.append((name, " ".join(info.command)[:_LONGEST_HELP]))
    return [(word, what) for word, what in offered if word.startswith(incomplete)]


def _home(ctx: click.Context) -> Path | None:
    if home := ctx.params.get("home"):
        return Path(home)
    from rerail.cli._settings import Settings

    settings = Settings.read(os.environ, Path.cwd())
    return settings.defaults_of(str(ctx.info_name), ctx.command).get("home")


@_quietly
def complete_run(ctx: click.Context, incomplete: str) -> Iterable[Offered]:
    return _runs(ctx, incomplete)


@_quietly
def complete_run_or_file(ctx: click.Context, incomplete: str) -> Iterable[Offered]:
    return (_runs(ctx, incomplete) if incomplete else []) or [FILES]


@_quietly
def complete_cause(ctx: click.Context, incomplete: str) -> Iterable[Offered]:
    from rerail.catalogue import load_catalogue

    return [(cause.id, cause.title) for cause in load_catalogue()]


@_quietly
def complete_change(ctx: click.Context, incomplete: str) -> Iterable[Offered]:
    from rerail.changes import Profile, offers

    return [(offer.text, offer.tells) for offer in offers(Profile(), [], os.environ)]


@_quietly
def complete_command(ctx: click.Context, incomplete: str) -> Iterable[Offered]:
    """The words of CMD: first a program, then files."""
    if ctx.params.get("command") or not incomplete or "/" in incomplete:
        return [FILES]
    names = set()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder and Path(folder).is_dir():
            names |= {
                entry.name
                for entry in os.scandir(folder)
                if entry.name.startswith(incomplete) and os.access(entry.path, os.X_OK)
            }
    return [(name, None) for name in sorted(names)] or [FILES]
