"""The list of runs as a person reads it: one line per run, per investigation, study or restart.

In: the runs on record, newest first, and the store's home. Out: `Entry`s, newest first, with those
they stand for inside. Reads what experiments kept, and of live runs how they stand; nothing else.
Promises: a trial that rerail stopped itself is clean, not dead; texts are printable, on one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from rerail.diagnosis import Ending
from rerail.errors import RerailError
from rerail.experiments import investigation_answer
from rerail.live import build, one_line, take_snapshot
from rerail.platform.os_text import printable_line
from rerail.platform.own_code import innermost_own
from rerail.records import RunInfo
from rerail.report.experiments import (
    INVESTIGATION,
    VERIFICATION,
    read_experiments,
    trial_of,
    trial_outcome,
    was_stopped,
    with_changes,
)
from rerail.report.verdict import as_list, as_object, as_text
from rerail.store import RunFolder
from rerail.wording import counted, duration_in_words, listed, percent, place_in_words

State = Literal["live", "stuck", "failed", "swallowed", "ok"]
NOT_WELL = ("failed", "swallowed")  # of a run that is over
Kind = Literal["run", "isolate", "verify", "study", "restarts"]
_INTERPRETERS = ("python", "python3")


class ListedRun(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def info(self) -> RunInfo: ...
    @property
    def label(self) -> str | None: ...
    @property
    def ending(self) -> Ending: ...
    @property
    def leading_cause(self) -> str | None: ...
    @property
    def headline_on_record(self) -> str | None: ...
    @property
    def last_step(self) -> int | None: ...


@dataclass(frozen=True)
class Entry:
    """One line. `name` is what the user calls it, `words` what came of it, `id` what to type.

    `program` is the command without the interpreter and its folder.
    """

    id: str
    kind: Kind
    state: State
    name: str
    words: str
    started_unix: float
    elapsed_seconds: float | None
    step: int | None = None
    headline: str = ""
    command: str = ""
    program: str = ""
    runs: tuple[str, ...] = ()
    members: tuple[Entry, ...] = ()


def group_of(run: ListedRun) -> tuple[Kind, str]:
    """What a run was made for; ("run", its id) where it stands for itself."""
    settings = run.info.settings
    for kind, names in _MARKS:
        for name in names:
            if isinstance(settings.get(name), str) and settings[name]:
                return kind, settings[name]
    return "run", run.id


# In a run's settings: what it was made for. A restarted run names the first of its story.
_MARKS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("isolate", ("investigation",)),
    ("verify", ("verification", "reference")),
    ("study", ("study",)),
    ("restarts", ("story",)),
)


def entries_of(runs: Sequence[ListedRun], home: Path) -> list[Entry]:
    groups: dict[tuple[Kind, str], list[ListedRun]] = {}
    stories = {key for kind, key in map(group_of, runs) if kind == "restarts"}
    for run in runs:
        key = group_of(run)
        if key[0] == "run" and run.id in stories:
            key = ("restarts", run.id)  # the attempt that all others follow
        groups.setdefault(key, []).append(run)
    labels = {run.id: run.label for run in runs if run.label and group_of(run)[0] == "run"}
    found = [_entry(kind, key, members, home, labels) for (kind, key), members in groups.items()]
    return sorted(found, key=lambda entry: (entry.started_unix, entry.id), reverse=True)


def _entry(
    kind: Kind, key: str, members: list[ListedRun], home: Path, labels: dict[str, str]
) -> Entry:
    if kind == "run":
        return run_entry(members[0])
    experiments = _experiments(kind, key, members, home)
    inside = tuple(run_entry(run, trial_of(experiments, run.info)) for run in members)
    whole = _span_of(inside, kind, key)
    if kind == "restarts":
        return _restarts(whole, inside)
    if kind == "study":
        return replace(whole, name=one_line([key]), words=_study_words(inside))
    document = as_object(experiments.get(INVESTIGATION if kind == "isolate" else VERIFICATION))
    name = _label_of_failure(document, labels) or _name_of_command(
        as_list(document.get("command")) or members[0].info.command
    )
    state = _state_of_experiment(document, inside)
    return replace(
        whole,
        name=f"{kind} {name}",
        state=state,
        elapsed_seconds=sum(entry.elapsed_seconds or 0.0 for entry in inside),
        words=_experiment_words(document, len(inside), state),
    )


def _label_of_failure(document: dict[str, Any], labels: dict[str, str]) -> str:
    """The label of a run that showed the failure before any experiment was made."""
    failed = as_object(document.get("failure")).get("run")
    before = as_list(document.get("earlier_runs"))
    before += as_list(as_object(document.get("before")).get("runs"))
    named = [labels[run] for run in (failed, *before) if isinstance(run, str) and run in labels]
    return printable_line(named[0]) if named else ""


def _span_of(inside: Sequence[Entry], kind: Kind, key: str) -> Entry:
    """All of them as one: from the first beginning on, live as long as one of them is."""
    first = min(entry.started_unix for entry in inside)
    ends = [entry.started_unix + (entry.elapsed_seconds or 0.0) for entry in inside]
    states = [entry.state for entry in inside]
    state: State = next((s for s in ("stuck", "live", *NOT_WELL) if s in states), "ok")
    return Entry(
        id=key,
        kind=kind,
        state=state,
        name=inside[0].name,
        words="",
        started_unix=max(entry.started_unix for entry in inside),
        elapsed_seconds=max(ends) - first,
        command=inside[0].command,
        runs=tuple(entry.id for entry in inside),
        members=tuple(inside),
    )


def _experiments(kind: Kind, key: str, members: Iterable[ListedRun], home: Path) -> dict[str, Any]:
    if kind == "isolate":
        return {INVESTIGATION: investigation_answer(home, key)}
    if kind == "verify":
        for run in members:
            found = as_object(read_experiments(run.folder).get(VERIFICATION))
            if found:
                return {VERIFICATION: found}
    return {}


def _state_of_experiment(document: dict[str, Any], inside: Sequence[Entry]) -> State:
    if any(entry.state in ("live", "stuck") for entry in inside):
        return "live"
    return "ok" if as_text(document.get("status")) in ("confirmed", "proven") else "failed"


def _experiment_words(document: dict[str, Any], count: int, state: State) -> str:
    """ "confirmed one-openmp-runtime 99.1 % · 4 trials"."""
    status = as_text(document.get("status"))
    said = "under way" if state == "live" else status.replace("-", " ") or "not concluded"
    if state != "live" and status in ("confirmed", "proven", "refuted"):
        said += " " + listed([str(change) for change in as_list(document.get("changes"))])
        confidence = document.get("confidence")
        if status != "refuted" and isinstance(confidence, (int, float)):
            said += f" {percent(confidence, 1)}"
    return f"{printable_line(said)} · {counted(count, 'trial')}"


def _study_words(inside: Sequence[Entry]) -> str:
    well = sum(entry.state == "ok" for entry in inside)
    failed = sum(entry.state in NOT_WELL for entry in inside)
    live = len(inside) - well - failed
    said = [counted(len(inside), "run"), f"{well} ended well"]
    said += [f"{failed} failed"] if failed else []
    return " · ".join([*said, *([f"{live} live"] if live else [])])


def _restarts(whole: Entry, inside: Sequence[Entry]) -> Entry:
    """The last attempt speaks for all of them, and is what to look at."""
    last, first = inside[0], inside[-1]
    attempts = counted(len(inside), "attempt")
    words = f"{attempts} · {last.words}"
    return replace(
        whole, id=last.id, state=last.state, step=last.step, name=first.name, words=words
    )


def run_entry(run: ListedRun, trial: dict[str, Any] | None = None) -> Entry:
    info = run.info
    trial = trial or {}
    state, words, elapsed = _standing(run, trial)
    is_trial = group_of(run)[0] in ("isolate", "verify")
    program = _name_of_command(info.command)
    name = printable_line(run.label) if run.label and not is_trial else program
    if is_trial:  # they all run the same command: what differs is what tells them apart
        name = printable_line(with_changes(trial or {"changes": info.settings.get("changes")}))
    return Entry(
        id=run.id,
        kind="run",
        state=state,
        name=name,
        words=words,
        started_unix=info.started_unix,
        elapsed_seconds=elapsed,
        step=run.last_step,
        headline=printable_line(run.headline_on_record or "") if state in NOT_WELL else "",
        command=one_line(info.command),
        program="" if is_trial else program,
        runs=(run.id,),
    )


def _standing(run: ListedRun, trial: dict[str, Any]) -> tuple[State, str, float | None]:
    info = run.info
    if info.state == "running":
        return _live(run)
    if trial:
        is_clean = was_stopped(trial) or as_text(trial.get("outcome")) == "finished"
        return (
            "ok" if is_clean else "failed",
            printable_line(trial_outcome(trial)),
            info.elapsed_seconds,
        )
    words, ending = how_it_ended(info), run.ending
    if ending == "swallowed":
        words = f"exit 0, but {run.leading_cause}"
    elif ending == "failed" and run.leading_cause:
        words += f" · {run.leading_cause}"
    return ending, words, info.elapsed_seconds


def _live(run: ListedRun) -> tuple[State, str, float | None]:
    try:
        standing = build(take_snapshot(RunFolder(run.folder)))
    except RerailError:
        return "live", "live", None
    if standing.stalled_seconds is not None:
        still = duration_in_words(standing.stalled_seconds)
        place = where_it_stands(RunFolder(run.folder))
        return "stuck", f"STUCK {still}{place}", standing.elapsed_seconds
    words = "live"
    if standing.silent_seconds is not None:
        words += f" · no progress for {duration_in_words(standing.silent_seconds)}"
    elif standing.loss is not None and standing.loss.latest is not None:
        words += f" · loss {standing.loss.latest:.4g}"
    return "live", words, standing.elapsed_seconds


def where_it_stands(folder: RunFolder) -> str:
    """ " in hang.py:7 save()": the user's own line, in the stacks that were taken last."""
    try:
        stalls = folder.stalls()
    except RerailError:
        return ""
    for threads in stalls[-1].stacks.values() if stalls else ():
        for thread in threads:
            frame = innermost_own(thread.python)
            if frame is not None:
                return f" in {printable_line(place_in_words(vars(frame)))}"
    return ""


def how_it_ended(info: RunInfo) -> str:
    if info.state != "ended":
        return info.state
    outcome = info.outcome
    if outcome is None:
        return "unknown"
    if outcome.kind == "signal":
        return outcome.signal or "signal"
    if outcome.kind == "exit":
        return f"exit {outcome.exit_code}"
    return outcome.kind


def _name_of_command(command: Sequence[object]) -> str:
    """ "train.py --lr 0.1": without the interpreter and its folder."""
    words = [str(word) for word in command]
    if not words:
        return ""
    words[0] = words[0].rpartition("/")[2] or words[0]
    if len(words) > 1 and words[0].rstrip("0123456789.") in _INTERPRETERS:
        if not words[1].startswith("-"):
            words[1] = words[1].rpartition("/")[2] or words[1]
        words = words[1:]
    return one_line(words)
