"""How a run stands, in a file that a Prometheus node exporter reads (`--metrics-file`).

In: the latest vitals, the black boxes, the state. Out: gauges in the text format of Prometheus and
OpenMetrics, replaced as a whole. Promises: a reader sees the old file or the new one, never a half;
it is readable for everybody, and holds no text of the program's but the run's label, masked; what
is not known is left out. `MetricsFile` writes it from a child with a deadline, since the file may
be on a disk that hangs.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rerail.platform.forked_task import ForkedTask
from rerail.platform.os_text import to_bytes
from rerail.platform.user_files import advice_on, is_standard_stream, write_user_file
from rerail.records import VitalsRow
from rerail.store import RunFolder, RunWriter, training_box

STATES = ("running", "stalled", "ended", "died")
_WRITE_SECONDS = 5.0
_MOST_REASON_BYTES = 4096  # a write of as much into an empty pipe is never split
_READABLE_FOR_ALL = 0o644
_OWN_HEAD = b"# HELP rerail_run_"


@dataclass(frozen=True)
class Metrics:
    run: str
    state: str  # one of STATES
    label: str = ""
    started_unix: float = 0.0
    step: int | None = None
    loss: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # name: used, limit
    outcome: str = ""  # how it died
    cause: str = ""  # of what, if that was found out


def render(metrics: Metrics, now_unix: float) -> str:
    """Gauges only, which both formats write alike; the last line is a comment for the older one."""
    lines: list[str] = []
    for name, text, samples in _families(metrics, now_unix):
        if samples:
            lines += [f"# HELP rerail_run_{name} {text}", f"# TYPE rerail_run_{name} gauge"]
        for labels, value in samples:
            shown = {"run": metrics.run, **labels}
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in shown.items())
            lines.append(f"rerail_run_{name}{{{inner}}} {_number(value)}")
    return "\n".join([*lines, "# EOF", ""])


Sample = tuple[dict[str, str], float]


def _families(metrics: Metrics, now_unix: float) -> Iterator[tuple[str, str, list[Sample]]]:
    def one(value: float | None) -> list[Sample]:
        return [] if value is None else [({}, value)]

    died = metrics.state == "died"
    yield "labeled", "1; the name that the run was given.", [({"label": metrics.label}, 1)]
    yield (
        "state",
        "1 for the state that the run is in, 0 for the others.",
        [({"state": state}, state == metrics.state) for state in STATES],
    )
    yield "started_timestamp_seconds", "When it was started.", one(metrics.started_unix)
    yield "updated_timestamp_seconds", "When this was written.", one(now_unix)
    yield "step", "The last training step.", one(metrics.step)
    yield "loss", "The last loss.", one(metrics.loss)
    yield "memory_bytes", "Of all its processes, each page once.", one(metrics.memory_bytes)
    yield (
        "memory_limit_used_bytes",
        "What counts against a limit of memory.",
        [({"limit": name}, used) for name, (used, _) in metrics.limits.items()],
    )
    yield (
        "memory_limit_bytes",
        "The limits of memory: of its control group, of the machine.",
        [({"limit": name}, limit) for name, (_, limit) in metrics.limits.items()],
    )
    yield "processes", "How many processes it has.", one(metrics.processes)
    yield (
        "death",
        "1 once it has died; how, and of which cause.",
        [({"outcome": metrics.outcome, "cause": metrics.cause}, 1)] if died else [],
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def limits_of(machine: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Used and limit, of those that there are."""
    found = {}
    total, available = machine.get("total_bytes"), machine.get("available_bytes")
    if total and available is not None:
        found["machine"] = (total - available, total)
    usage, limit = machine.get("cgroup_usage_bytes"), machine.get("cgroup_limit_bytes")
    if usage is not None and limit:
        found["cgroup"] = (usage, limit)
    return found


def write_metrics(path: Path, metrics: Metrics) -> str | None:
    """Write the file in a child that is given a few seconds, and return what went wrong."""
    task, answer = ForkedTask.start_with_answer(
        "metrics file", lambda pipe: _replace_or_say(path, metrics, pipe), _WRITE_SECONDS
    )
    try:
        task.wait(2 * _WRITE_SECONDS)
        if task.problem is None:
            return None
        return _said(answer) or f"{path}: {task.problem}"
    finally:
        os.close(answer)


def _said(answer: int) -> str:
    try:
        return os.read(answer, _MOST_REASON_BYTES).decode("utf-8", "replace")
    except OSError:  # it was killed before it said anything
        return ""


def _replace_or_say(path: Path, metrics: Metrics, pipe: int) -> None:
    try:
        _replace(path, metrics)
    except OSError as error:
        advice = advice_on(error, path, "--metrics-file")
        reason = f"{path}: {(error.strerror or str(error)).lower()}. {advice}"
        os.write(pipe, to_bytes(reason)[:_MOST_REASON_BYTES])
        raise


def _replace(path: Path, metrics: Metrics) -> None:
    if is_standard_stream(path):  # of this child, which has none: it would be written nowhere
        raise OSError(errno.EINVAL, "metrics are not mixed with the output", str(path))
    text = render(metrics, time.time())
    write_user_file(
        path,
        text.encode("utf-8", "replace"),
        _READABLE_FOR_ALL,
        is_exact=True,
        may_replace=lambda head: head.startswith(_OWN_HEAD),
    )


class MetricsFile:
    """The file of a run while it lives."""

    def __init__(self, path: Path, writer: RunWriter, own_helpers: set[int]) -> None:
        self._path = path
        self._writer = writer
        self._own_helpers = own_helpers
        self._task: ForkedTask | None = None

    def tick(self, row: VitalsRow | None, *, is_stalled: bool) -> None:
        """Write it anew, unless the last time is still under way; that is what hangs then."""
        if self._task is not None:
            if not self._task.is_over():
                return
            if self._task.problem:
                raise OSError(f"{self._path.name} could not be written: {self._task.problem}")
        self._task = ForkedTask.start(
            "metrics file",
            lambda: _replace(self._path, self._standing(row, is_stalled=is_stalled)),
            _WRITE_SECONDS,
        )
        self._own_helpers.add(self._task.pid)

    def close(self) -> None:
        """Whoever ends the run writes the last one, which must not be overtaken."""
        if self._task is not None:
            self._task.cancel()

    def _standing(self, row: VitalsRow | None, *, is_stalled: bool) -> Metrics:
        info = self._writer.info
        boxes = RunFolder(self._writer.path).boxes()
        training = training_box(boxes)
        return Metrics(
            info.id,
            "stalled" if is_stalled else "running",
            label=self._writer.masker.mask_text(str(info.settings.get("label") or "")),
            started_unix=info.started_unix,
            step=(training.optimizer_steps or None) if training is not None else None,
            loss=training.loss if training is not None else None,
            memory_bytes=row.tree.rss_bytes if row is not None else None,
            processes=row.process_count if row is not None else None,
            limits=limits_of(row.machine) if row is not None else {},
        )
