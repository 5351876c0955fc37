"""Say why it died: a recorded run, or any log files.

Ends with 0 when no cause was found, 1 when one was, 2 when something could not be read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rerail import api
from rerail.cli._options import completes, home_option, json_option
from rerail.cli._printing import print_json, print_json_line
from rerail.cli._telling import echo
from rerail.diagnosis import Diagnosis
from rerail.errors import RerailError, UsageError
from rerail.records import Outcome

if TYPE_CHECKING:
    from rerail.diagnosis import ChatServer

UNREADABLE = 2
MANY_LOGS = 2000  # of a folder: a look at them takes seconds


@click.command(
    name="explain",
    epilog="""\b
Examples:
  rerail explain last                     the newest recorded run
  rerail explain slurm-*.out              ranks or nodes of one job
  rerail explain logs/                    the logs in a folder
  rerail explain /shared/jobs/4711        all nodes of a job
  rerail explain train.log.gz logs.tar.xz notebook.ipynb
  kubectl logs pod | rerail explain -
  rerail explain train.log --why-not host-oom
  rerail explain train.log --ask http://localhost:11434""",
)
@click.argument(
    "what", nargs=-1, metavar="[RUN | JOB | FILE...]", shell_complete=completes("run_or_file")
)
@click.option("--each", is_flag=True, help="Explain every file by itself, not as ranks of one job.")
@click.option(
    "--why-not",
    metavar="CAUSE",
    shell_complete=completes("cause"),
    help="Say what speaks against this cause, and what is missing.",
)
@click.option(
    "--ask",
    is_flag=False,
    flag_value="",
    metavar="[URL]",
    help="Send masked evidence to this model server (OpenAI API) for a second opinion"
    " [URL: RERAIL_ASK].",
)
@click.option(
    "--ask-model",
    metavar="NAME",
    help="Which model to ask [default: RERAIL_ASK_MODEL, else the server's first].",
)
@click.option("--ask-insecure", is_flag=True, help="Let --ask use plain http to another machine.")
@home_option
@json_option
def command(
    what: tuple[str, ...],
    each: bool,
    why_not: str | None,
    ask: str | None,
    ask_model: str | None,
    ask_insecure: bool,
    home: Path | None,
    as_json: bool,
) -> int:
    """Why it died: a recorded run (id, folder or `last`), log files, or - for standard input.

    Several files together are ranks or nodes of one job: the one that failed first is found, and
    what the others say is its echo. Logs may be compressed (gzip, bzip2, xz, zstd), in a zip or
    tar, in a folder, or the outputs of a notebook; what is no log in there is passed over.
    Dumps of PyTorch's Flight Recorder are compared.
    """
    if why_not is not None:
        _check_cause(why_not)
    server = _server(ask, ask_model, ask_insecure)
    if each:
        return _each(what, why_not, home, as_json, server)
    diagnosis = _diagnosis(what or ("last",), home, server)
    if as_json:
        print_json(_document(diagnosis, why_not))
    else:
        _show(diagnosis, why_not)
    return 1 if diagnosis.causes else 0


def _check_cause(cause_id: str) -> None:
    """Before a gigabyte is read for it."""
    from rerail.diagnosis import unknown_cause

    if all(cause.id != cause_id for cause in api.causes()):
        raise unknown_cause(cause_id)


def _server(url: str | None, model: str | None, may_be_plain: bool) -> ChatServer | None:
    """Only if --ask was typed: a variable alone sends nothing."""
    if url is None:
        if model is not None or may_be_plain:
            raise UsageError("--ask-model and --ask-insecure say how to --ask: add it.")
        return None
    from rerail.diagnosis import server_of

    def tell(what_is_sent: str) -> None:
        echo(f"rerail: {what_is_sent}", err=True)

    return server_of(url, model, may_be_plain=may_be_plain, tell=tell)


def _each(
    what: tuple[str, ...],
    why_not: str | None,
    home: Path | None,
    as_json: bool,
    server: ChatServer | None,
) -> int:
    """One answer per file, in order; a file that cannot be read costs its own answer only."""
    status = 0
    for at, name in enumerate(what):
        error = ""
        try:
            diagnosis = _diagnosis((name,), home, server)
        except RerailError as unreadable:
            error = unreadable.message
            echo(f"rerail: {error}", err=True)
            diagnosis = Diagnosis(Outcome("unknown", error))
            status = UNREADABLE
        asked = None if error else why_not
        status = max(status, 1 if diagnosis.causes else 0)
        if as_json:
            document = _document(diagnosis, asked)
            print_json_line({**document, **({"error": error} if error else {})})
        else:
            echo(f"{chr(10) if at else ''}== {name}")
            _show(diagnosis, asked)
    return status


def _diagnosis(what: tuple[str, ...], home: Path | None, server: ChatServer | None) -> Diagnosis:
    _say_that_it_takes_long(what)
    diagnosis = api.explain(sys.stdin.buffer if what == ("-",) else what, home=home, ask=server)
    if diagnosis.skipped:
        echo(f"rerail: {_passed_over(diagnosis.skipped)}", err=True)
    clean = _headline_if_stopped(diagnosis, home)
    if clean is None:
        return diagnosis
    from rerail.report import stopped_trial

    return stopped_trial.diagnosis_of_stopped(diagnosis, clean)


def _say_that_it_takes_long(what: tuple[str, ...]) -> None:
    """To a person who waits for the logs of a large job."""
    if not sys.stderr.isatty():
        return
    count = sum(len(files) for name in what if name != "-" for _, _, files in os.walk(name))
    if count >= MANY_LOGS:
        echo(f"rerail: looking at {count:,} logs …", err=True)


def _passed_over(skipped: Sequence[tuple[str, str]]) -> str:
    """How many files were no logs, and which, by the reason."""
    from rerail.wording import counted

    by_reason: dict[str, list[str]] = {}
    for name, why in skipped:
        by_reason.setdefault(why, []).append(name)
    parts = []
    for why, names in list(by_reason.items())[:4]:
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        parts.append(f"{', '.join(names[:3])}{more} ({why})")
    rest = "; …" if len(by_reason) > 4 else ""
    return f"passed over {counted(len(skipped), 'file')}: {'; '.join(parts)}{rest}"


def _document(diagnosis: Diagnosis, why_not: str | None) -> dict[str, Any]:
    document = diagnosis.to_json()
    if why_not is not None:
        document["why_not"] = diagnosis.why_not(why_not).to_json()
    return document


def _show(diagnosis: Diagnosis, why_not: str | None) -> None:
    from rerail.report import terminal

    if why_not is not None:
        from rerail.cli._why_not import render

        echo(render(diagnosis.why_not(why_not)))
        if diagnosis.second_opinion is not None:
            echo(terminal.second_opinion(diagnosis.second_opinion))
        return
    terminal.show(diagnosis, sys.stdout)
    if diagnosis.job:
        from rerail.jobs import node_table

        echo(node_table(diagnosis.job))


def _headline_if_stopped(diagnosis: Diagnosis, home: Path | None) -> str | None:
    """Of a trial that rerail stopped itself: it is clean, whatever signal ended it."""
    if diagnosis.run is None or diagnosis.outcome.signal not in ("SIGTERM", "SIGKILL"):
        return None
    from rerail.cli._options import store_to_read
    from rerail.report import stopped_trial
    from rerail.store import RunFolder

    try:
        folder = RunFolder(store_to_read(home).runs / diagnosis.run)
        return stopped_trial.headline_if_stopped(folder.path, folder.info())
    except RerailError:
        return None  # a run of another store
