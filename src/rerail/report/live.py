"""How a run stands, on one screen: what is read, and what is made of it.

In: a run folder, live, ended or lost. Out: `Standing`, plain data, by way of a `Snapshot` of what
the folder holds at one moment: `take_snapshot` reads, `build` is pure. `live_screen.render` draws
it; `rerail show --json` prints it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rerail.errors import UnreadableInput
from rerail.platform.terminal_text import last_drawn
from rerail.records import BlackBox, Event, Outcome, ProcessRecord, RunInfo, VitalsRow
from rerail.report.live_memory import Memory, memory_of
from rerail.report.live_progress import Loss, Progress, loss_of, progress_of
from rerail.report.stopped_trial import headline_if_stopped, without_rerails_signal
from rerail.store import RunFolder
from rerail.store.liveness import scope
from rerail.wording import duration_in_words

T = TypeVar("T")

VITALS_BYTES = 1 << 20  # the last quarter of an hour, about
OUTPUT_LINES = 40

_INTERESTING = {"main": 0, "rank": 1, "launcher": 2, "loader-worker": 3}


@dataclass(frozen=True)
class Snapshot:
    """What the folder held at one moment."""

    info: RunInfo
    now_seconds: float  # since the start of the run; for a run that is over, its end
    processes: Sequence[ProcessRecord] = ()
    boxes: Sequence[BlackBox] = ()
    vitals: Sequence[VitalsRow] = ()  # thinned, the last stretch
    recent: Sequence[VitalsRow] = ()  # 10 Hz
    printed: Sequence[bytes] = ()
    events: Sequence[Event] = ()  # stalls and what is missing
    surroundings: Mapping[str, Any] = field(default_factory=dict)
    diagnosis: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessLine:
    pid: int
    role: str
    rank: int | None
    name: str
    rss_bytes: int | None
    cpu_percent: float | None
    state: str  # running, or how it ended
    is_alive: bool
    died_badly: bool


@dataclass(frozen=True)
class Standing:
    """One run at one moment, ready to be shown."""

    id: str
    command: list[str]
    state: str  # running, ended, lost
    headline: str
    is_bad: bool
    started_unix: float
    elapsed_seconds: float
    progress: Progress | None
    loss: Loss | None
    memory: Memory | None
    processes: list[ProcessLine]
    output: list[str]
    stalled_seconds: float | None
    why: str | None  # the first sentence of its diagnosis
    leading_cause: str | None
    leading_probability: float | None
    missing: list[str]
    warnings: list[str]  # what boded ill at the start
    story: str | None  # which attempt of a run that was gone on with


def take_snapshot(folder: RunFolder) -> Snapshot:
    """Read what one screen needs, in bounded time however long the run is."""
    info = folder.info()
    wanted = ("stall", "stall-over", "missing")
    events = [event for event in folder.events() if event.kind in wanted]

    def part(what: str, read: Callable[[], T], otherwise: T) -> T:
        """run.json and the events are the run; any other part that cannot be read is missing."""
        try:
            return read()
        except UnreadableInput as error:
            events.append(Event(0.0, "missing", {"what": what, "why": error.message}))
            return otherwise

    processes, diagnosis = folder.processes(), _diagnosis(folder)
    clean = headline_if_stopped(folder.path, info) if info.state == "ended" else None
    if clean is not None:
        info = replace(info, outcome=Outcome("ok", clean, process="main"))
        processes, diagnosis = without_rerails_signal(processes), {}
    return Snapshot(
        info=info,
        now_seconds=_now_seconds(info),
        processes=processes,
        boxes=part("black boxes", folder.boxes, []),
        vitals=part("vitals", lambda: list(folder.vitals(VITALS_BYTES)), []),
        recent=part("recent vitals", folder.recent_vitals, []),
        printed=part("output", lambda: _last_printed(folder), []),
        events=events,
        diagnosis=diagnosis,
        surroundings=part("surroundings", folder.surroundings, {}),
    )


def _last_printed(folder: RunFolder) -> list[bytes]:
    return [line.text for line in folder.output().tail(OUTPUT_LINES)]


def build(snapshot: Snapshot) -> Standing:
    """What there is to say about it. Pure."""
    info, now = snapshot.info, snapshot.now_seconds
    output = [text for text in map(readable, snapshot.printed) if text]
    stalled = _stalled_seconds(snapshot)
    cause = _leading(snapshot.diagnosis)
    return Standing(
        id=info.id,
        command=info.command,
        state=info.state,
        headline=_headline(info, now, stalled),
        is_bad=info.state == "lost"
        or stalled is not None
        or (info.outcome is not None and info.outcome.kind != "ok"),
        started_unix=info.started_unix,
        elapsed_seconds=round(now, 3),
        progress=progress_of(snapshot.boxes, now, info.state == "running", output),
        loss=loss_of(snapshot.boxes),
        memory=memory_of(snapshot.vitals, snapshot.recent, info.state == "running"),
        processes=_process_lines(snapshot),
        output=output,
        stalled_seconds=stalled,
        why=_why(snapshot.diagnosis),
        leading_cause=cause[0],
        leading_probability=cause[1],
        missing=[
            f"{event.data.get('what')}: {event.data.get('why')}"
            for event in snapshot.events
            if event.kind == "missing"
        ],
        warnings=_warnings(snapshot.surroundings),
        story=_story(info),
    )


def _warnings(surroundings: Mapping[str, Any]) -> list[str]:
    """What `rerail check` would have said for free; some records say it themselves.

    A record that was damaged, or written by another rerail, warns of nothing.
    """
    try:
        if "warnings" in surroundings:
            found = surroundings["warnings"]
        else:
            from rerail.preflight import quick

            found = [finding.to_json() for finding in quick(surroundings)] if surroundings else []
        return [f"{warning.get('title')} ({warning.get('level')})" for warning in found]
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        return []


def _story(info: RunInfo) -> str | None:
    """Of `rerail run --restarts`: this attempt's place, and what it began with."""
    settings = info.settings
    if not settings.get("previous_run"):
        return None
    parts = [f"attempt {settings.get('attempt')}, after {settings['previous_run']}"]
    if settings.get("resumed_from"):
        parts.append(f"from {settings['resumed_from']}")
    if settings.get("changes"):
        parts.append("with " + " and ".join(settings["changes"]))
    return ", ".join(parts)


def readable(printed: bytes) -> str:
    """A line as it last stood on the terminal: after its last redraw, without colours."""
    last = last_drawn(printed.decode("utf-8", "replace"))
    return "".join(c if c.isprintable() else " " for c in last.expandtabs(4)).rstrip()


def one_line(command: Sequence[str]) -> str:
    """As it would be typed, on one line and printable whatever an argument holds."""
    text = " ".join(shlex.join(command).split())
    return "".join(c if c.isprintable() else "?" for c in text)


def _now_seconds(info: RunInfo) -> float:
    if info.state != "running":
        return info.elapsed_seconds or 0.0
    if info.t0_ns and info.recorder_scope == scope():
        return max(0.0, (time.monotonic_ns() - info.t0_ns) / 1e9)  # a clock jump moves nothing
    return max(0.0, time.time() - info.started_unix)


def _diagnosis(folder: RunFolder) -> dict[str, Any]:
    try:
        return folder.diagnosis()
    except UnreadableInput:
        return {}  # the run itself can still be shown


def _headline(info: RunInfo, now: float, stalled: float | None) -> str:
    if info.state == "running":
        if stalled is not None:
            silent = duration_in_words(stalled)
            return f"running for {duration_in_words(now)}, no progress for {silent}"
        return f"running for {duration_in_words(now)}"
    if info.state == "lost":
        return f"lost: its recorder was killed; last seen after {duration_in_words(now)}"
    return info.outcome.summary if info.outcome else f"ended after {duration_in_words(now)}"


def _stalled_seconds(snapshot: Snapshot) -> float | None:
    """How long a stall that is not over has lasted; None if there is none."""
    stall = None
    for event in snapshot.events:
        if event.kind == "stall":
            stall = event
        elif event.kind == "stall-over":
            stall = None
    if stall is None or snapshot.info.state != "running":
        return None
    silent = stall.data.get("silent_seconds")
    before = float(silent) if isinstance(silent, (int, float)) else 0.0
    return before + max(0.0, snapshot.now_seconds - stall.t_seconds)


def _why(diagnosis: dict[str, Any]) -> str | None:
    said = diagnosis.get("headline")
    return said if isinstance(said, str) and diagnosis.get("causes") else None


def _leading(diagnosis: dict[str, Any]) -> tuple[str | None, float | None]:
    causes = diagnosis.get("causes")
    if not isinstance(causes, list) or not causes or not isinstance(causes[0], dict):
        return None, None
    name, probability = causes[0].get("id"), causes[0].get("probability")
    return (
        name if isinstance(name, str) else None,
        float(probability) if isinstance(probability, (int, float)) else None,
    )


def _process_lines(snapshot: Snapshot) -> list[ProcessLine]:
    """Those that died badly first, then the living by role, then those that ended well."""
    sizes, loads = _last_sizes(snapshot), _cpu_percent(snapshot.recent)
    lines = []
    for process in snapshot.processes:
        is_alive = process.ended_t_seconds is None and snapshot.info.state == "running"
        lines.append(
            ProcessLine(
                pid=process.pid,
                role=process.role,
                rank=process.rank,
                name=process.name,
                rss_bytes=sizes.get(process.key),
                cpu_percent=loads.get(process.key) if is_alive else None,
                state=_state(process, is_alive),
                is_alive=is_alive,
                died_badly=process.signal is not None or process.exit_code not in (None, 0),
            )
        )
    order = {id(line): i for i, line in enumerate(lines)}
    lines.sort(
        key=lambda line: (
            not line.died_badly,
            not line.is_alive,
            _INTERESTING.get(line.role, 9),
            line.rank if line.rank is not None else -1,
            order[id(line)],
        )
    )
    return lines


def _state(process: ProcessRecord, is_alive: bool) -> str:
    if is_alive:
        return "running"
    if process.signal is not None:
        return f"{process.signal}, core" if process.dumped_core else process.signal
    if process.exit_code is not None:
        return "ended well" if process.exit_code == 0 else f"exit {process.exit_code}"
    return "ended" if process.ended_t_seconds is not None else "not seen to end"


def _last_sizes(snapshot: Snapshot) -> dict[str, int]:
    """Each process's last known size: a row of vitals need not name every process."""
    sizes: dict[str, int] = {}
    for row in (*snapshot.vitals, *snapshot.recent):
        for key, vitals in row.processes.items():
            sizes[key] = vitals.rss_bytes
    return sizes


def _cpu_percent(rows: Iterable[VitalsRow], over_seconds: float = 3.0) -> dict[str, float]:
    """Of one core, over the last few seconds."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for key, vitals in row.processes.items():
            points.setdefault(key, []).append((row.t_seconds, vitals.cpu_seconds))
    found = {}
    for key, series in points.items():
        t_last, cpu_last = series[-1]
        earlier = [point for point in series if point[0] <= t_last - over_seconds]
        t_first, cpu_first = earlier[-1] if earlier else series[0]
        if t_last > t_first:
            found[key] = round(100 * max(0.0, cpu_last - cpu_first) / (t_last - t_first), 1)
    return found
