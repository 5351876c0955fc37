"""The command line: one file per command, found by its name, imported only when asked for.

`main` is what `rerail` starts. A command's callback may return its exit status; everything that
goes wrong leaves it as an exception and becomes a sentence and a status in `_failures`; before the
command of a `rerail run` was started, that command is run without us instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

import rerail
from rerail import bare
from rerail.cli._discovery import command_names, load_command, summary_of
from rerail.cli._failures import report_failure, run_bare, was_typed_wrong
from rerail.errors import UsageError
from rerail.platform.os_text import let_output_take_anything

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from rerail.cli._settings import Settings


class _Commands(click.Group):
    """A group whose commands are the files of this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in command_names() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        resolved: tuple[str | None, click.Command | None, list[str]]
        if name not in command_names() and (name == "-" or not name.startswith("-")):
            _refuse_what_is_no_log(name, args, ctx)
            resolved = "explain", load_command("explain"), args
        else:
            resolved = super().resolve_command(ctx, args)
        _apply_settings(ctx, *resolved)
        return resolved

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands by their files, not by importing each of them: a person waits for the answer."""
        from click.shell_completion import CompletionItem

        names = [name for name in command_names() if name.startswith(incomplete)]
        if not names and not incomplete.startswith("-"):
            return [CompletionItem(incomplete, type="file")]  # rerail FILE explains it
        if names:
            return [CompletionItem(name, help=summary_of(name)) for name in names]
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, summary_of(name)) for name in command_names()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Examples: rerail run -- python train.py; rerail train.log (explains the log)",
)
@click.version_option(
    rerail.__version__, "--version", prog_name="rerail", message="%(prog)s %(version)s"
)
def group() -> None:
    """Find out why a training run died, prove it, and put it back on the rails."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    let_output_take_anything()
    try:
        status = _invoke(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if bare.is_armed() and not was_typed_wrong(error):
            return run_bare(error)
        return report_failure(error)
    return status


def _invoke(arguments: list[str]) -> int:
    if not arguments and "_RERAIL_COMPLETE" in os.environ:
        group.main([], prog_name="rerail")  # the shell asks what could be typed, in variables alone
    arguments = arguments or ["--help"]
    settings = _read_settings()
    try:
        return _invoke_with(settings, arguments)
    except UsageError as error:
        # What is set may contradict itself: that must not keep a run from starting.
        if not (bare.is_armed() and settings is not None and settings.is_used):
            raise
        settings.forget(because=error.message)
        return _invoke_with(settings, arguments)


def _invoke_with(settings: Settings | None, arguments: list[str]) -> int:
    # Not group.main(): it takes a closed pipe for exit status 1, which here means bad news.
    try:
        with group.make_context("rerail", list(arguments), obj=settings) as context:
            status = group.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    return status if isinstance(status, int) else 0


def _read_settings() -> Settings | None:
    """None where they cannot be read: a command does without."""
    try:
        from pathlib import Path

        from rerail.cli._settings import Settings

        cwd = Path.cwd() if os.path.exists(".") else None  # noqa: PTH110
        return Settings.read(os.environ, cwd)
    except Exception as error:
        bare.say(f"the settings are left out: {bare.in_one_line(error)}")
        return None


def _apply_settings(
    ctx: click.Context, name: str | None, command: click.Command | None, args: Sequence[str]
) -> None:
    """Make them the defaults of this command, and say once what is wrong with them."""
    settings: Settings | None = ctx.obj
    if settings is None or name in (None, "config") or command is None or ctx.resilient_parsing:
        return
    ctx.default_map = {str(name): settings.defaults_of(str(name), command)}
    request = bare.parse([str(name), *args])
    if request is None or not request.is_quiet:
        for problem in settings.problems:
            bare.say(f"not used: {problem}")
        if told := settings.refusal_for(command):
            bare.say(told)


def _refuse_what_is_no_log(name: str, args: Sequence[str], ctx: click.Context) -> None:
    """`rerail FILE` means `rerail explain FILE`, if there is such a file; else it is a mistake."""
    from pathlib import Path

    if name == "-":
        return
    if not Path(name).exists():
        raise click.UsageError(_no_such_command(name, args), ctx)
    if name.endswith((".py", ".sh")):
        by = "python" if name.endswith(".py") else "sh"
        raise click.UsageError(
            f"{name} is a program. To record a run of it, type"
            f" `rerail run -- {by} {_shortened(args)}`.",
            ctx,
        )


def _no_such_command(name: str, args: Sequence[str]) -> str:
    import difflib  # here, not above: it costs the start of every `rerail run` milliseconds

    from rerail.evidence import no_such_file, url_error

    close = difflib.get_close_matches(name, command_names(), n=1, cutoff=0.6)
    if close:
        return f"there is no command {name!r}. Did you mean `rerail {close[0]}`?"
    if len(args) == 1 or name.endswith((".log", ".out", ".err", ".txt")):
        # With words behind it, it is a program and its arguments.
        wrong = url_error(name) or no_such_file(name)
        if wrong is not None:
            return f"{wrong.message} {wrong.help_text}"
    return (
        f"there is no command {name!r}. To record a run, type `rerail run -- {_shortened(args)}`."
    )


def _shortened(args: Sequence[str]) -> str:
    typed = " ".join(args)
    return typed if len(typed) <= 40 else f"{typed[:37]}..."
