"""Options that every command spells and treats the same way."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rerail.cli._numbers import Seconds, WholeRange
from rerail.cli._telling import echo
from rerail.store import Store, find_home

if TYPE_CHECKING:
    from rerail.notify import Notifier

F = TypeVar("F", bound=Callable[..., Any])


def completes(what: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """What a shell may offer there: `complete_WHAT`, imported only when one asks."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        from rerail.cli import _completing

        return getattr(_completing, f"complete_{what}")(ctx, param, incomplete)

    return complete


def home_option(function: F) -> F:
    """--home FOLDER, given to the command as `home`."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Where the runs are [default: RERAIL_HOME, else .rerail here].",
    )(function)


def json_option(function: F) -> F:
    """--json, given to the command as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on standard output."
    )(function)


def command_argument(function: F) -> F:
    """-- CMD..., given to the command as `command`."""
    return click.argument(
        "command",
        nargs=-1,
        type=click.UNPROCESSED,
        metavar="-- CMD...",
        shell_complete=completes("command"),
    )(function)


def stall_option(function: F) -> F:
    """--stall SECONDS, given to the command as `stall_seconds`."""
    return click.option(
        "--stall",
        "stall_seconds",
        type=Seconds(0, is_above=True),
        metavar="SECONDS",
        help="No step and no output for this long is a hang [default: from the run's own pace].",
    )(function)


class _Events(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "events"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from rerail.notify import notifier_of

        notifier_of((), str(value), {})  # it knows which there are, and says so
        return str(value)


def notify_options(function: F) -> F:
    """--notify and --notify-on, given to the command as `notifier`: None if nobody is told."""

    @functools.wraps(function)
    def with_notifier(
        *args: Any, notify: tuple[str, ...], notify_on: str | None, **options: Any
    ) -> Any:
        notifier = _notifier(notify, notify_on, is_quiet=options.get("is_quiet", False))
        return function(*args, notifier=notifier, **options)

    receivers = click.option(
        "--notify",
        multiple=True,
        metavar="URL|CMD",
        help="Whom to tell: a webhook, a chat, a mail address, a command. Repeat it"
        " [default: RERAIL_NOTIFY].",
    )
    events = click.option(
        "--notify-on",
        type=_Events(),
        metavar="EVENTS",
        help="Of what: death,stall,proof,end, or some of them [default: all].",
    )
    return receivers(events(with_notifier))  # type: ignore[return-value]


def job_options(function: F) -> F:
    """--job, --job-dir and --nnodes, given to the command as `job`: what `sharing_of` takes."""

    @functools.wraps(function)
    def with_job(
        *args: Any, job_id: str | None, job_dir: str | None, nnodes: int | None, **options: Any
    ) -> Any:
        return function(*args, job=(job_id, job_dir, nnodes), **options)

    which = click.option(
        "--job",
        "job_id",
        metavar="ID|auto",
        help="This run is one node of a job: the same ID on each, or auto for Slurm, torchrun,"
        " Kubernetes [default: RERAIL_JOB].",
    )
    where = click.option(
        "--job-dir",
        metavar="DIR|URL",
        help="Where the nodes show each other their records"
        " [default: RERAIL_JOB_DIR, else jobs in --home].",
    )
    count = click.option(
        "--nnodes",
        type=WholeRange(min=1),
        metavar="N",
        help="How many nodes it has [default: from the scheduler or CMD].",
    )
    return which(where(count(with_job)))  # type: ignore[return-value]


def _notifier(typed: tuple[str, ...], events: str | None, *, is_quiet: bool) -> Notifier | None:
    if not typed and not events and not os.environ.get("RERAIL_NOTIFY"):
        return None
    from rerail.notify import notifier_of

    notifier = notifier_of(typed, events, os.environ)
    if notifier is None and events and was_typed("notify_on"):
        say_notices(["--notify-on says of what, and nobody is named: --notify URL"])
    if notifier is not None and not is_quiet:
        say_notices(notifier.problems())
    return notifier


def was_typed(*names: str) -> bool:
    """Whether one of these parameters was given on the command line, and not by a setting."""
    context = click.get_current_context()
    return any(
        context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        for name in names
    )


def say_notices(sentences: list[str]) -> None:
    """On standard error, on lines of their own; one that is closed is no reason to fail."""
    from rerail.recorder import end_open_line

    for sentence in sentences:
        try:
            echo(f"{end_open_line()}rerail: {sentence}", err=True)
        except OSError:
            return


def store_to_read(home: Path | None) -> Store:
    """The store that --home, RERAIL_HOME, or the nearest `.rerail` here or above says."""
    return Store(find_home(home, for_reading=True))


def store_to_write(home: Path | None) -> Store:
    """The store that --home, RERAIL_HOME, or `.rerail` here says."""
    return Store(find_home(home))
