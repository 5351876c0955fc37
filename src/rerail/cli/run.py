"""Run CMD under the flight recorder; say how it ended and, if it died, why.

Ends as CMD ended: the same exit code, or the same signal. Text of rerail's own goes to standard
error, after the command's own output.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from rerail import bare
from rerail.cli._aftermath import (
    close_in_trackers,
    finish_sharing,
    notify,
    outcome_in_trackers,
    write_elsewhere,
)
from rerail.cli._numbers import Seconds, WholeRange
from rerail.cli._options import (
    command_argument,
    home_option,
    job_options,
    json_option,
    notify_options,
    say_notices,
    stall_option,
    store_to_write,
    was_typed,
)
from rerail.cli._record_words import about_record, is_readable
from rerail.errors import UsageError
from rerail.platform.own_process import lose_patience
from rerail.recorder import CommandNotStarted, Recording, RunOptions, record
from rerail.store import RunFolder, Store, dump_line

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis
    from rerail.jobs import Sharing
    from rerail.notify import Notifier
    from rerail.remedies import Story

FINISH_LINE_SECONDS = 2.0


@click.command(
    name="run",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: rerail run --stall 300 -- python train.py --workers 8",
)
@home_option
@stall_option
@click.option(
    "--on-stall",
    default="report",
    metavar="report|kill|CMD",
    help="What to do then: record it, end the run, or run a shell command [default: report].",
)
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="GATE",
    help="What a metric has to be at a step or an epoch: 'loss < 2 @ step 500'.",
)
@click.option(
    "--on-gate",
    type=click.Choice(["warn", "stop"]),
    help="What to do where a gate is not met: say so, or stop as Ctrl-C would [default: warn].",
)
@notify_options
@job_options
@click.option(
    "--metrics-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Keep step, loss, memory and state there, for Prometheus [default: RERAIL_METRICS_FILE].",
)
@click.option("--label", "--name", "label", metavar="TEXT", help="A name to find this run by.")
@click.option("--quiet", "-q", "is_quiet", is_flag=True, help="Nothing from rerail itself.")
@click.option("--no-explain", is_flag=True, help="Record, but do not say why it died.")
@click.option(
    "--no-trackers",
    is_flag=True,
    help="Leave runs in MLflow, W&B and TensorBoard as they are [default: RERAIL_NO_TRACKERS].",
)
@click.option("--no-agent", is_flag=True, help="Put nothing into the command's processes.")
@click.option(
    "--no-census",
    is_flag=True,
    help="When memory grows, do not look at what the command's objects are.",
)
@click.option(
    "--preload/--no-preload",
    default=None,
    help="Load the crash handler with LD_PRELOAD, always or never [default: where needed].",
)
@click.option(
    "--restarts",
    type=WholeRange(min=0),
    default=0,
    metavar="N",
    help="When CMD dies, go on up to N times, with a safe remedy if there is one.",
)
@click.option("--checkpoint", metavar="GLOB", help="Where CMD leaves its checkpoints.")
@click.option(
    "--resume-args",
    metavar="ARGS",
    help="How CMD is told: '--resume {checkpoint}', or 'NAME={checkpoint}' for a variable.",
)
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Choice(["safe", "changes-results", "hides-it"]),
    help="Also apply remedies that do this.",
)
@click.option(
    "--backoff",
    "backoff_seconds",
    type=Seconds(0),
    metavar="SECONDS",
    help="Wait before the first restart, twice as long before each later one [default: 5].",
)
@click.option(
    "--folder-to",
    type=WholeRange(min=3),
    hidden=True,
    help="A descriptor for the path of the run's folder: what `rerail.record` asks for.",
)
@json_option
@command_argument
def command(
    home: Path | None,
    stall_seconds: float | None,
    on_stall: str,
    gates: tuple[str, ...],
    on_gate: str | None,
    metrics_file: Path | None,
    label: str | None,
    is_quiet: bool,
    no_explain: bool,
    no_trackers: bool,
    no_agent: bool,
    no_census: bool,
    preload: bool | None,
    restarts: int,
    checkpoint: str | None,
    resume_args: str | None,
    allowed: tuple[str, ...],
    backoff_seconds: float | None,
    folder_to: int | None,
    as_json: bool,
    command: tuple[str, ...],
    notifier: Notifier | None,
    job: tuple[str | None, str | None, int | None],
) -> None:
    """Run CMD under the flight recorder.

    CMD sees the terminal, signals and environment that it would have seen. rerail ends as CMD
    ended: the same exit code, or the same signal. If it died, the cause follows on standard error.

    With --json the last thing on standard output, and the only one, is the diagnosis; what CMD
    itself prints goes to standard error then.

    With --restarts it goes on from the newest checkpoint that really loads. What was stopped from
    outside is not started again, nor is a failure that would only come back. Each attempt is a run.
    """
    if not command:
        raise UsageError(
            "there is no command to run", "Type it after --, as in: rerail run -- python train.py"
        )
    if not on_stall.strip():
        raise UsageError("--on-stall is empty", "Give it report, kill, or a command to run.")
    if gates:
        from rerail.recorder import parse_gate

        gates = tuple(str(parse_gate(text)) for text in gates)
    elif on_gate is not None:
        raise UsageError(
            "--on-gate says what to do about a gate, and there is none",
            "Give one: --gate 'loss < 2 @ step 500'",
        )
    if not restarts and was_typed("checkpoint", "resume_args", "backoff_seconds", "allowed"):
        raise UsageError(
            "--checkpoint, --resume-args, --allow and --backoff are about going on",
            "Say how often it may: --restarts 3",
        )
    if folder_to is not None:
        os.set_inheritable(folder_to, False)  # ours, not the command's
    sharing = _sharing(job, command, home, is_quiet=is_quiet)
    standard_output = bare.set_standard_output_aside() if as_json else None
    options = RunOptions(
        stall_seconds=stall_seconds,
        on_stall=on_stall,
        use_agent=not no_agent,
        use_census=not no_census,
        preload=preload,
        is_quiet=is_quiet,
        label=label,
        gates=gates,
        on_gate=on_gate or "warn",
        owns_process=True,
        notifier=notifier,
        metrics_file=metrics_file.absolute() if metrics_file is not None else None,
        sharing=sharing,
    )
    sys.stdout.flush()
    try:
        store = store_to_write(home)
        if restarts:
            from rerail.remedies import RestartOptions, run_with_restarts

            going_on = RestartOptions(
                restarts,
                checkpoint,
                resume_args,
                frozenset(allowed),
                5.0 if backoff_seconds is None else backoff_seconds,
            )
            reporter = _Reporter(
                store,
                options,
                explains=not no_explain,
                tells_trackers=not no_trackers,
                notifier=notifier,
            )
            story = run_with_restarts(command, store, options, going_on, reporter)
            remark = f"not started again: {story.ended_because}" if story.ended_because else ""
            reporter.notify(remark)
            if standard_output is not None:
                _write_story(story, store, standard_output)
            say_notices(finish_sharing(sharing, story.recording, is_quiet=is_quiet))
            end_as(story.recording.exit_code, story.recording.signal_number)
        recording = record(command, store, options)
    except CommandNotStarted as error:
        _say(error.message)
        _leave(error.exit_code)
    if folder_to is not None and is_readable(recording):
        with suppress(OSError):  # who asked for it is gone
            os.write(folder_to, os.fsencode(recording.folder))
    with suppress(KeyboardInterrupt):  # pressed between two of these, which bear it themselves
        _tell(recording, store, is_quiet=is_quiet, explains=not no_explain, json_to=standard_output)
        closing = close_in_trackers(recording, store, wanted=not no_trackers)
        notices = [
            *write_elsewhere(recording, options.metrics_file, explains=not no_explain),
            *notify(notifier, recording, store),
            *outcome_in_trackers(closing),
        ]
        say_notices([] if is_quiet else notices)
        say_notices(finish_sharing(sharing, recording, is_quiet=is_quiet))
    end_as(recording.exit_code, recording.signal_number)


def _sharing(
    job: tuple[str | None, str | None, int | None],
    command: tuple[str, ...],
    home: Path | None,
    *,
    is_quiet: bool,
) -> Sharing | None:
    """Only if a job was named: nothing is shown to anybody otherwise."""
    if job == (None, None, None) and not os.environ.get("RERAIL_JOB"):
        return None
    from rerail.jobs import sharing_of
    from rerail.store import find_home

    job_id, place, nnodes = job
    try:
        return sharing_of(job_id, place, os.environ, command, find_home(home), nnodes=nnodes)
    except UsageError as error:
        if job != (None, None, None):
            raise
        why = error.message  # a variable keeps no run from starting
    except Exception as error:
        why = bare.in_one_line(error)
    say_notices([] if is_quiet else [f"this run is not shared with its job: {why}"])
    return None


def _tell(
    recording: Recording, store: Store, *, is_quiet: bool, explains: bool, json_to: int | None
) -> None:
    """Say how it ended and why. A failure in here must not change how we end."""
    try:
        _answer(recording, store, is_quiet=is_quiet, explains=explains, json_to=json_to)
    except KeyboardInterrupt:  # who is impatient gets the command's own status all the same
        lose_patience()
        if not is_quiet:
            _say(f"ask again: rerail explain {recording.folder.name}")
    except Exception as error:
        if not is_quiet:
            _say(f"{recording.outcome.summary}")
            _say(f"it could not be explained ({type(error).__name__}: {error});")
            _say(f"the record is in {recording.folder}")


def _answer(
    recording: Recording, store: Store, *, is_quiet: bool, explains: bool, json_to: int | None
) -> None:
    from rerail.cli._explaining import AnswerOverdue, at_most, explain_recording

    try:
        if not is_readable(recording):
            _tell_without_record(recording, is_quiet=is_quiet, json_to=json_to)
        elif json_to is not None or (explains and _is_to_be_explained(recording)):
            with at_most():
                diagnosis = explain_recording(recording.folder, store)
                if explains and not is_quiet:
                    _show(recording, diagnosis)
            if json_to is not None:
                os.write(json_to, dump_line(diagnosis.to_json()))
        elif not is_quiet and not recording.deserves_explanation:
            _tell_of_success(recording)
        for sentence in [] if is_quiet else about_record(recording, store.home):
            _say(sentence)
    except AnswerOverdue:
        if not is_quiet:
            _say(recording.outcome.summary)
            _say(f"there is no answer yet; ask again: rerail explain {recording.folder.name}")


def _is_to_be_explained(recording: Recording) -> bool:
    from rerail.diagnosis import may_hide_a_failure

    return recording.deserves_explanation or may_hide_a_failure(RunFolder(recording.folder))


def _show(recording: Recording, diagnosis: Diagnosis) -> None:
    """The answer to a death, or a line about what the command swallowed."""
    from rerail.cli._explaining import say_what_was_swallowed, show_answer
    from rerail.diagnosis import ending_of_diagnosis

    folder = RunFolder(recording.folder)
    if recording.deserves_explanation:
        show_answer(diagnosis)
    elif ending_of_diagnosis(diagnosis) == "swallowed":
        say_what_was_swallowed(diagnosis, folder)
    else:
        _tell_of_success(recording)


def _tell_of_success(recording: Recording) -> None:
    """One line for who sits in front of it."""
    from rerail.cli._explaining import AnswerOverdue, at_most

    if not sys.stderr.isatty():
        return
    try:
        from rerail.report import finish_line

        with at_most(FINISH_LINE_SECONDS):
            line = finish_line(recording.folder)
        _say(line)
    except (Exception, AnswerOverdue):
        pass


def _tell_without_record(recording: Recording, *, is_quiet: bool, json_to: int | None) -> None:
    """How it ended, from memory: nothing was kept that could say why."""
    if not is_quiet:
        _say(recording.outcome.summary)
    if json_to is not None:
        from rerail.diagnosis import Diagnosis

        document = Diagnosis(recording.outcome).to_json()
        os.write(json_to, dump_line({**document, "run": None}))


class _Reporter:
    """Tells how each attempt ended, and why, and what comes next."""

    def __init__(
        self,
        store: Store,
        options: RunOptions,
        *,
        explains: bool,
        tells_trackers: bool,
        notifier: Notifier | None,
    ) -> None:
        self._store = store
        self._tells_trackers = tells_trackers
        self._notifier = notifier
        self._metrics_file = options.metrics_file
        self._ended: Recording | None = None
        self._is_quiet = options.is_quiet
        self._explains = explains

    def said(self, text: str) -> None:
        if not self._is_quiet:
            from rerail.remedies import paragraph

            _say(paragraph(text).removeprefix("rerail: "))

    def goes_on(self, text: str) -> None:
        self.said(text)
        self.notify(f"goes on by itself: {text}")

    def notify(self, remark: str) -> None:
        """About the attempt that has ended last."""
        if self._ended is not None:
            notices = notify(self._notifier, self._ended, self._store, remark)
            say_notices([] if self._is_quiet else notices)

    def ended(self, recording: Recording) -> None:
        self._ended = recording
        _tell(
            recording, self._store, is_quiet=self._is_quiet, explains=self._explains, json_to=None
        )
        closing = close_in_trackers(recording, self._store, wanted=self._tells_trackers)
        notices = write_elsewhere(recording, self._metrics_file, explains=self._explains)
        notices += outcome_in_trackers(closing)
        say_notices([] if self._is_quiet else notices)


def _write_story(story: Story, store: Store, json_to: int) -> None:
    """The diagnosis of the last attempt, and what all of them were."""
    from rerail.cli._explaining import explain_recording

    if not is_readable(story.recording):
        _tell_without_record(story.recording, is_quiet=True, json_to=json_to)
        return
    document = explain_recording(story.recording.folder, store).to_json()
    document["attempts"] = story.to_json()
    document["ended_because"] = story.ended_because
    os.write(json_to, dump_line(document))


def end_as(exit_code: int | None, signal_number: int | None) -> NoReturn:
    """End this process as the command ended."""
    if signal_number is not None:
        try:
            import resource

            # The command may have left a core file; one of ours would only confuse.
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        except Exception:
            pass  # no memory for the import: the signal matters more
        _flush()
        try:
            signal.signal(signal_number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL: nothing to restore
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal_number])
        os.kill(os.getpid(), signal_number)
        _leave(128 + signal_number)  # as pid 1 of a container no default signal ends us
    _leave(exit_code if exit_code is not None else 1)


def _leave(exit_code: int) -> NoReturn:
    """At once: nothing of ours is worth the time that an interpreter takes to tidy up."""
    _flush()
    os._exit(exit_code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def _say(text: str) -> None:
    say_notices([text])
