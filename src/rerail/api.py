"""rerail from Python: what `import rerail` gives, and what the command line itself calls.

In: paths, names of runs, commands. Out: `Run` and `Diagnosis` objects. Promises: what goes wrong
and can be acted on is a RerailError with a plain message; nothing here prints, ends the process or
needs the main thread. docs/python.md has an example of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO

from rerail.diagnosis import Candidate, Diagnosis
from rerail.errors import RerailError, UnknownRun, UsageError
from rerail.platform.deadline import MOST_SECONDS
from rerail.records import Outcome, RunInfo
from rerail.store import RunFolder, RunSummary, Store, find_home

if TYPE_CHECKING:
    from rerail.catalogue import Cause
    from rerail.diagnosis import ChatServer, Ending, Question
    from rerail.evidence import Listener

__all__ = [
    "Diagnosis",
    "RerailError",
    "Run",
    "Runs",
    "causes",
    "explain",
    "open_run",
    "record",
    "runs",
]

PathName = str | os.PathLike[str]
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".gz", ".xz", ".bz2", ".zst", ".zip", ".ipynb")


class Run:
    """A run on record. While it is live everything is read anew at each access."""

    def __init__(self, folder: PathName, store: Store, summary: RunSummary | None = None) -> None:
        """Runs are made by `rerail.runs`, `rerail.open_run` and `rerail.record`."""
        self._folder = RunFolder(Path(folder))
        self._store = store
        self._summary = summary
        self._ended: RunInfo | None = None
        self._diagnosis: Diagnosis | None = None

    @property
    def id(self) -> str:
        return self._folder.id

    @property
    def folder(self) -> Path:
        """Where the record is; docs/run-folder.md says what is in it."""
        return self._folder.path

    @property
    def info(self) -> RunInfo:
        """All that `run.json` holds."""
        if self._ended is not None:
            return self._ended
        info = self._summary.info if self._summary else self._folder.info()
        if info.state == "running":
            info = self._folder.info()
        else:
            self._ended = info
        return info

    @property
    def label(self) -> str | None:
        label = self.info.settings.get("label")
        return None if label is None else str(label)

    @property
    def command(self) -> list[str]:
        """As it was typed, with secrets masked."""
        return list(self.info.command)

    @property
    def state(self) -> Literal["running", "ended", "lost"]:
        """Lost: the recorder itself was killed."""
        return self.info.state

    @property
    def started_unix(self) -> float:
        return self.info.started_unix

    @property
    def elapsed_seconds(self) -> float | None:
        return self.info.elapsed_seconds

    @property
    def outcome(self) -> Outcome:
        """How it ended; `unknown` while it is running."""
        return self.info.outcome or self.diagnosis.outcome

    @property
    def has_failed(self) -> bool:
        """Whether it is over and did not end well, whatever its exit code."""
        return self.state != "running" and self.ending != "ok"

    @property
    def ending(self) -> Ending:
        """`ok`, `failed`, or `swallowed`: exit code 0, and the diagnosis on record says why not.

        Only for a run that is over.
        """
        from rerail.diagnosis import ending_of

        info = self.info
        outcome = info.outcome if info.state == "ended" else None
        return ending_of(outcome, self._leading_on_record()[1])

    @property
    def diagnosis(self) -> Diagnosis:
        """The answer on record, or a new one where there is none; `explain` makes a new one."""
        if self._diagnosis is not None:
            return self._diagnosis
        from rerail.diagnosis import diagnosis_on_record

        kept = diagnosis_on_record(self._folder) if self.state != "running" else None
        if kept is None:
            return self.explain()
        self._diagnosis = kept
        return kept

    @property
    def headline(self) -> str:
        """The one sentence that stands first."""
        return self.diagnosis.headline

    @property
    def causes(self) -> tuple[Candidate, ...]:
        """The most probable first; empty for a healthy run."""
        return self.diagnosis.causes

    @property
    def leading_cause(self) -> str | None:
        """The id of the first cause on record; None if there is none, or nobody has asked yet."""
        return self._leading_on_record()[0]

    @property
    def headline_on_record(self) -> str | None:
        """The headline without asking anew; None if nobody has asked yet."""
        if self._summary is not None:
            return self._summary.headline
        from rerail.diagnosis import diagnosis_on_record

        kept = self._diagnosis or diagnosis_on_record(self._folder)
        return kept.headline or None if kept is not None else None

    @property
    def last_step(self) -> int | None:
        """How far it came; None where it does not say."""
        from rerail.store import read_summary

        return (self._summary or read_summary(self._folder)).last_step

    @property
    def facts(self) -> dict[str, Any]:
        """What was observed, by name; what was not is left out."""
        return self.diagnosis.facts

    def explain(self) -> Diagnosis:
        """Why it ended, from the evidence; kept in the run's folder if the run is over."""
        from rerail.diagnosis import explain_run

        is_over = self.state != "running"
        history = self._store.history(self._folder.info())
        diagnosis = explain_run(self._folder, history, keeps=True)
        if is_over:
            self._diagnosis = diagnosis
            self._summary = None  # its cause may be another one now
        return diagnosis

    def output(
        self, last: int | None = None, *, stream: Literal["stdout", "stderr"] | None = None
    ) -> str:
        """What the command printed, or the last so many lines of it, or one stream of it.

        What is not UTF-8 is replaced. Of huge output the first 64 MiB and the end are kept.
        """
        reader = self._folder.output()
        if stream is None and last is None:
            return reader.read(0, reader.size_bytes).decode("utf-8", "replace")
        if stream is None:
            lines = reader.tail(last or 0)
        else:
            lines = list(reader.lines_of_stream(stream))
            lines = lines if last is None else lines[max(0, len(lines) - last) :]
        text = b"".join(line.text + b"\n" * line.is_whole for line in lines)
        return text.decode("utf-8", "replace")

    def vitals(self, *, with_extremes: bool = False) -> dict[str, list[float]]:
        """The tree and the machine over time: columns, one row per sample, one number per cell.

        `pandas.DataFrame(run.vitals())` is a table. Sums over the tree have plain names
        (`rss_bytes`), quantities of the machine begin with `machine_`; NaN was not observed. With
        extremes there is a `_min` and a `_max` beside each: an older sample stands for a second.
        """
        from rerail.store import tree_columns

        return tree_columns(self._folder.merged_vitals(), with_extremes=with_extremes)

    def process_vitals(self) -> dict[str, list[Any]]:
        """The same per process, in long form: one row per sample and process."""
        from rerail.store import process_columns

        return process_columns(self._folder.merged_vitals(), self._folder.processes())

    def to_json(self) -> dict[str, Any]:
        """The row of `rerail runs --json`; the cause is the one on record."""
        info = self.info
        cause, probability = self._leading_on_record()
        return {
            "id": self.id,
            "folder": str(self.folder),
            "label": info.settings.get("label"),
            "command": info.command,
            "cwd": info.cwd,
            "started_unix": info.started_unix,
            "elapsed_seconds": info.elapsed_seconds,
            "state": info.state,
            "outcome": info.outcome,
            "cause": cause,
            "probability": probability,
            "size_bytes": self.size_bytes,
            "headline": self.headline_on_record,
            "last_step": self.last_step,
        }

    def _leading_on_record(self) -> tuple[str | None, float | None]:
        if self._summary is not None:
            return self._summary.leading_cause, self._summary.leading_probability
        from rerail.diagnosis import diagnosis_on_record

        kept = self._diagnosis or diagnosis_on_record(self._folder)
        if kept is None or kept.leading is None:
            return None, None
        return kept.leading.id, kept.leading.probability

    @property
    def size_bytes(self) -> int:
        """What the record takes on the disk."""
        from rerail.store import folder_bytes

        return self._summary.size_bytes if self._summary else folder_bytes(self.folder)

    def __repr__(self) -> str:
        return f"<rerail.Run {self.id}: {self.state}>"

    def _repr_html_(self) -> str:
        from html import escape

        words = escape(" ".join(self.command)[:200])
        head = f"<p>{escape(self.id)}, {self.state}: <code>{words}</code></p>"
        return head if self.state == "running" else head + self.diagnosis._repr_html_()


class Runs(list[Run]):
    """Runs, newest first, with what could not be listed."""

    def __init__(
        self,
        found: Iterable[Run] = (),
        *,
        home: Path,
        unreadable: Sequence[tuple[str, str]] = (),
        index_problem: str | None = None,
    ) -> None:
        super().__init__(found)
        self.home = home
        self.unreadable = list(unreadable)  # folders, each with the reason
        self.index_problem = index_problem


def explain(
    what: PathName | Run | BinaryIO | TextIO | Iterable[PathName] = "last",
    *,
    home: PathName | None = None,
    ask: str | ChatServer | None = None,
) -> Diagnosis:
    """Why it died.

    `what` is a log file, several files or folders of them (ranks of one job), an open file, or a
    recorded run: a `Run`, an id or the beginning of one, a run folder, a label, or `last`; or all
    nodes of a job, by its id, folder or URL (docs/jobs.md). Logs may be compressed, in a zip or
    tar, or the outputs of a notebook; `skipped` names what was no log.

    `ask`, the URL of a server that speaks the OpenAI chat completions API, sends it masked lines of
    the evidence; what its model says is the `second_opinion`. docs/second-opinion.md has the rest.
    """
    if ask is None:
        return _explain(what, home, None)
    from rerail.diagnosis import Question, server_of

    question = Question(server_of(ask) if isinstance(ask, str) else ask)
    return question.answered(_explain(what, home, question))


def _explain(what: Any, home: PathName | None, question: Question | None) -> Diagnosis:
    listener = question.read if question else None
    if isinstance(what, Run):
        return _explain_recorded(what, question)
    if hasattr(what, "read"):
        return _explain_stream(what, listener)
    names = [what] if isinstance(what, (str, os.PathLike)) else list(what)
    if not names:
        raise UsageError("there is nothing to explain", "Name a log file or a run.")
    if len(names) == 1 and (of_job := _explain_job(os.fspath(names[0]), home)) is not None:
        return of_job
    paths = [Path(name) for name in names]
    if all(is_log_or_folder(path) for path in paths):
        from rerail.diagnosis import explain_logs

        return explain_logs(paths, listener=listener)
    if len(paths) == 1:
        return _explain_recorded(_run_named(os.fspath(names[0]), home), question)
    missing = next(name for name in names if not is_log_or_folder(Path(name)))
    if wrong := _wrong_name(os.fspath(missing)):
        raise UsageError(wrong.message, wrong.help_text)
    raise UsageError(
        f"{missing} is not a file; several names must all be log files of one job.",
        "Name one run, or only files.",
    )


def runs(home: PathName | None = None) -> Runs:
    """The runs on record, newest first.

    They are read from `home`, else RERAIL_HOME, else the nearest `.rerail` here or above.
    """
    store = _store_to_read(home)
    listing = store.listing()
    return Runs(
        (Run(summary.path, store, summary) for summary in listing.summaries),
        home=store.home,
        unreadable=listing.unreadable,
        index_problem=listing.index_problem,
    )


def open_run(name: PathName = "last", *, home: PathName | None = None) -> Run:
    """One run: by id or the beginning of one, folder, label, or `last`. UnknownRun if none is."""
    store = _store_to_read(home)
    return Run(store.resolve(os.fspath(name)).path, store)


def record(
    command: Sequence[PathName],
    *,
    label: str | None = None,
    home: PathName | None = None,
    cwd: PathName | None = None,
    env: Mapping[str, str] | None = None,
    stall_seconds: float | None = None,
    on_stall: str = "report",
    use_agent: bool = True,
) -> Run:
    """Run a command under the flight recorder, and give its record when it has ended.

    It is recorded by a process of its own (`rerail run`), so this may be called from any thread,
    in a notebook, and in a program that has threads and children. The command gets the descriptors
    0, 1 and 2 of this process, and `cwd` and `env` as subprocess.run would give them. That it fails
    is no exception: see `run.outcome`. Ctrl-C ends the command, then raises KeyboardInterrupt here.

    `stall_seconds` without progress is a hang (default: from the run's own pace), and `on_stall` is
    `report`, `kill` or a shell command. Without `use_agent` nothing is put into its processes.
    CommandNotStarted if there is no such program; NotRecorded if it ran and left no record.
    """
    from rerail.recorder import find_program, record_apart

    if isinstance(command, (str, bytes)) or not command:
        raise UsageError("the command is not a list of words", "Give it as ['python', 'train.py'].")
    if stall_seconds is not None and not 0 < stall_seconds <= MOST_SECONDS:
        raise UsageError(
            f"stall_seconds is {stall_seconds}", "Give it a number of seconds above 0, at most 1e9."
        )
    if not on_stall.strip():
        raise UsageError("on_stall is empty", "Give it report, kill, or a command to run.")
    words = [os.fspath(word) for word in command]
    is_relative = cwd is not None and os.sep in words[0]
    find_program(str(Path(cwd or "", words[0])) if is_relative else words[0], env or os.environ)
    options = ["--quiet", "--no-explain", f"--on-stall={on_stall}"]
    if home is not None:
        options.append(f"--home={find_home(home)}")
    if label is not None:
        options.append(f"--label={label}")
    if stall_seconds is not None:
        options.append(f"--stall={stall_seconds}")
    if not use_agent:
        options.append("--no-agent")
    folder = record_apart(words, options, cwd, env)
    return Run(folder, Store(folder.parent.parent))


def causes() -> list[Cause]:
    """Every cause that rerail knows, with its mechanism, signatures, experiments and remedies."""
    from rerail.catalogue import load_catalogue

    return list(load_catalogue())


def _store_to_read(home: PathName | None) -> Store:
    return Store(find_home(home, for_reading=True))


def _explain_stream(stream: Any, listener: Listener | None) -> Diagnosis:
    import io

    from rerail.diagnosis import explain_stream

    name = getattr(stream, "name", None)
    if isinstance(stream, io.StringIO):
        stream = io.BytesIO(stream.read().encode("utf-8", "replace"))
    return explain_stream(
        getattr(stream, "buffer", stream),
        name if isinstance(name, str) else "a stream",
        listener=listener,
    )


def _explain_job(name: str, home: PathName | None) -> Diagnosis | None:
    """None if no job has this id, folder or URL; a run of this name comes first."""
    is_url = "://" in name and not name.startswith(("http://", "https://"))
    if is_url and Path(name).suffix in _LOG_SUFFIXES:
        return None  # a log in a store: what to type for that is said elsewhere
    if name == "last" or not (is_url or Path(name).is_dir() or Path(name).name == name):
        return None
    if not is_url and not Path(name).is_dir():
        if Path(name).exists():
            return None
        try:
            open_run(name, home=home)
            return None
        except RerailError:
            pass
    from rerail.jobs import explain_job, find_job

    place = find_job(name, home)
    return explain_job(place) if place is not None else None


def _explain_recorded(run: Run, question: Question | None) -> Diagnosis:
    diagnosis = run.explain()
    if question is not None:
        question.read_run(RunFolder(run.folder), diagnosis)
    return diagnosis


def _run_named(name: str, home: PathName | None) -> Run:
    from rerail.evidence import url_error

    if error := url_error(name):
        raise error
    try:
        return open_run(name, home=home)
    except UnknownRun as unknown:
        raise _wrong_name(name) or _neither(name, unknown) from None


def _neither(name: str, unknown: UnknownRun) -> UnknownRun:
    """The same error, which says of what may be meant for a file that there is no such file."""
    if name == "last" or set(name) <= set("0123456789abcdef-"):
        return unknown
    return UnknownRun(f"there is no file {name!r} here, and {unknown.message}", unknown.help_text)


def _wrong_name(name: str) -> RerailError | None:
    """What is wrong with a name that was meant for a log; None if it was meant for a run."""
    from rerail.evidence import no_such_file, url_error

    is_folder = Path(name).is_dir()
    return url_error(name) or (no_such_file(name) if name != "last" and not is_folder else None)


def is_log_or_folder(path: Path) -> bool:
    """A file, a pipe that the user named (`rerail explain <(kubectl logs pod)`), or their folder.

    A recorded run and a store of runs are something else; that TensorBoard writes a folder called
    `runs` makes no store of a project.
    """
    try:
        if not path.is_dir():
            return path.is_file() or path.is_fifo()
        is_run = (path / "run.json").exists() or (path / "run.json").is_symlink()
        return not is_run and next((path / "runs").glob("*/run.json"), None) is None
    except (OSError, ValueError):
        return False  # too long for a name, or a zero byte in it
