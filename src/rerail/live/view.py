"""How a run stands, on one screen: what is made of what was read.

In: a `Snapshot` of a run folder, live, ended or lost. Out: `LiveView`, plain data. Pure.
`report.live_screen.render` draws it, `rerail show --json` prints it, `rerail watch` shows it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rerail.diagnosis import Ending, ending_of, leading_probability_of, summary_of
from rerail.live.alerts import Alert, GateLine, alerts_of, gates_of, ranks_of
from rerail.live.machine import Gauge, gauges_of, machine_now
from rerail.live.memory import Memory, in_order, memory_of_rows, steady_rows
from rerail.live.processes import ProcessLine, process_lines
from rerail.live.progress import Loss, Progress, loss_of, progress_of
from rerail.live.snapshot import Snapshot
from rerail.platform.os_text import is_printable, printable, printable_line
from rerail.platform.terminal_text import last_drawn
from rerail.records import RunInfo, VitalsRow
from rerail.wording import duration_in_words


@dataclass(frozen=True)
class LiveView:
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
    label: str | None = None
    silent_seconds: float | None = None  # without progress, where that is long for this run
    gauges: list[Gauge] = field(default_factory=list)  # what else can run out
    alerts: list[Alert] = field(default_factory=list)  # what bodes ill just now
    gates: list[GateLine] = field(default_factory=list)  # how each gate was judged
    next_command: str | None = None  # of a run that is over: what to type


def build(snapshot: Snapshot) -> LiveView:
    """What there is to say about it. Pure."""
    info, now = snapshot.info, snapshot.now_seconds
    is_running = info.state == "running"
    diagnosis = snapshot.diagnosis
    leading = diagnosis.leading if diagnosis else None
    outcome = info.outcome if info.state == "ended" else None
    ending = ending_of(outcome, leading_probability_of(diagnosis))
    output = [text for text in map(readable, snapshot.printed) if text]
    stalled = _stalled_seconds(snapshot)
    progress = _with_printed_total(progress_of(snapshot, output), snapshot)
    quiet = stalled if stalled is not None else _long_silence(snapshot, progress)
    if progress is not None and stalled is not None:
        progress = replace(progress, eta_seconds=None)  # at no pace there is none
    loss = loss_of(snapshot)
    pace = progress.steps_per_second if progress is not None else None
    rows = in_order(snapshot.vitals, snapshot.recent)
    machine = machine_now(rows)
    memory = memory_of_rows(
        rows, machine, steady_rows(snapshot.vitals, snapshot.recent, rows), is_running, pace
    )
    processes = process_lines(snapshot)
    gauges = gauges_of(machine, _last_with_processes(rows), snapshot.surroundings)
    gates = gates_of(snapshot.events)
    alerts = alerts_of(
        stalled_seconds=stalled,
        loss=loss,
        memory=memory,
        processes=processes,
        gauges=gauges,
        gates=gates,
        ranks=ranks_of(snapshot.events) if is_running else [],
    )
    return LiveView(
        id=info.id,
        command=info.command,
        state=info.state,
        headline=_headline(info, now, quiet, ending),
        is_bad=stalled is not None or (not is_running and ending != "ok"),
        started_unix=info.started_unix,
        elapsed_seconds=round(now, 3),
        progress=progress,
        loss=loss,
        memory=memory,
        processes=processes,
        output=output,
        stalled_seconds=stalled,
        silent_seconds=quiet,
        why=diagnosis.headline if diagnosis and leading else None,
        leading_cause=leading.id if leading else None,
        leading_probability=leading.probability if leading else None,
        missing=[
            f"{event.data.get('what')}: {event.data.get('why')}"
            for event in snapshot.events
            if event.kind == "missing"
        ],
        warnings=(
            warnings_of(snapshot.surroundings) if snapshot.warnings is None else snapshot.warnings
        ),
        story=_story(info),
        label=_label(info),
        gauges=gauges,
        alerts=alerts if is_running else [],
        gates=gates,
        next_command=_next_command(snapshot, ending),
    )


SILENT_SECONDS = 60.0  # a shorter silence is not worth a word
_SILENT_STEPS = 3.0  # nor is one of fewer steps at the run's own pace


def _long_silence(snapshot: Snapshot, progress: Progress | None) -> float | None:
    """Since when there is no progress, where that is long; a stall is told of much later."""
    silent = snapshot.silent_seconds
    pace = progress.steps_per_second if progress is not None else None
    usual = _SILENT_STEPS / pace if pace else 0.0
    return silent if silent is not None and silent >= max(SILENT_SECONDS, usual) else None


def _with_printed_total(progress: Progress | None, snapshot: Snapshot) -> Progress | None:
    """The agent's count with the total that the output prints, where the agent knows none."""
    said = snapshot.printed_progress[-1] if snapshot.printed_progress else None
    if progress is None or progress.total is not None or said is None:
        return progress
    if said.step is None or not said.total or said.step > said.total:
        return progress
    pace = progress.steps_per_second if snapshot.info.state == "running" else None
    eta = round((said.total - said.step) / pace, 1) if pace else None
    return replace(progress, done=said.step, total=said.total, eta_seconds=eta)


def _last_with_processes(rows: Sequence[VitalsRow]) -> VitalsRow | None:
    return next((row for row in reversed(rows) if row.processes), None)


def _label(info: RunInfo) -> str | None:
    label = info.settings.get("label")
    return label if isinstance(label, str) and label else None


def _next_command(snapshot: Snapshot, ending: Ending) -> str | None:
    """Of a run that is over: the experiment that the diagnosis proposes, else the question why."""
    info = snapshot.info
    if info.state == "running" or ending == "ok":
        return None
    if any(e.kind == "gate" and e.data.get("action") == "stop" for e in snapshot.events):
        return None  # it did not die: rerail ended it
    proposed = snapshot.diagnosis.next_step if snapshot.diagnosis else None
    if proposed is not None and proposed.command:
        return printable_line(proposed.command)
    return f"rerail explain {info.id}"


def warnings_of(surroundings: Mapping[str, Any]) -> list[str]:
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
    text = printed.decode("utf-8", "replace")
    return printable(text if is_printable(text) else last_drawn(text).expandtabs(4)).rstrip()


def one_line(command: Sequence[str]) -> str:
    """As it would be typed, on one line and printable whatever an argument holds."""
    return printable_line(shlex.join(command))


def _headline(info: RunInfo, now: float, stalled: float | None, ending: Ending) -> str:
    if info.state == "running":
        if stalled is not None:
            silent = duration_in_words(stalled)
            return f"running for {duration_in_words(now)}, no progress for {silent}"
        return f"running for {duration_in_words(now)}"
    if info.state == "lost":
        return f"lost: its recorder was killed; last seen after {duration_in_words(now)}"
    if info.outcome is None:
        return f"ended after {duration_in_words(now)}"
    return summary_of(info.outcome.summary, ending)


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
