"""How far did the training come, and how was it set up?

In: the black boxes, and what the text readers saw in the output. Out: `progress`, `nonfinite-loss`,
`loader` and `accumulation` observations.

A step number that the program printed goes before the agent's own count, because that is the number
that the user knows: programs count from zero or one, and over epochs or within one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import BlackBox, Observation, PrintedPoint, ProcessRecord
from rerail.store import (
    SEEN_LATE_SECONDS,
    counted_by,
    printed_by,
    settle_progress,
    training_of,
)
from rerail.wording import counted, file_name, sentence

_MOST_FILES = 3
_STEPS_OF_A_PACE, _LONG_PACES, _LONG_SECONDS = 3, 8, 10.0
_CHILD = linear(r"^child process .{0,80}\(pid (?P<pid>\d{1,9})\)$")


def read_progress(run: RecordedRun) -> list[Observation]:
    box = run.training_box
    if box is None:
        return []
    found = [_progress(run, box)]
    for member in run.boxes:
        if member.first_nonfinite_step is not None:
            found.append(_nonfinite(member))
    return found


def _progress(run: RecordedRun, box: BlackBox) -> Observation:
    step, total = counted_by(box)
    data: dict[str, Any] = {"step": step, "counted_by": "agent"}
    words = []
    if box.epoch is not None:
        data["epoch"] = box.epoch
        words.append(f"in epoch {box.epoch}")
    if box.phase:
        data["phase"] = box.phase
        words.append(f"during {box.phase}")
    if box.loss is not None:
        data["loss"] = box.loss
        words.append(f"with loss {box.loss:.4g}")
    if total:
        data["total"] = total
    text = counted(box.optimizer_steps, "optimiser step") + " done"
    if not box.optimizer_steps and box.batches:
        data["batches"] = box.batches
        text = counted(box.batches, "batch").replace("batchs", "batches") + " done"
    text += f" ({', '.join(words)})" if words else ""
    if box.progress_text:
        data["progress_text"] = box.progress_text
        text += f'; its progress bar said "{box.progress_text.strip()}"'
    trend = loss_trend(box)
    if trend:
        data["loss_trend"] = trend
        text += f"; the loss was {trend}"
    if box.rank is not None:
        data["rank"] = box.rank
    return Observation("progress", sentence(text), f"box:{box.pid}", data)


def loss_trend(box: BlackBox) -> str | None:
    """falling, level, rising or diverging over the steps that the box still holds."""
    losses = [p.loss for p in box.history if p.loss is not None]
    if len(losses) < 8:
        return None
    if not math.isfinite(losses[-1]):
        return "diverging"
    finite = [loss for loss in losses if math.isfinite(loss)]
    quarter = max(len(finite) // 4, 2)
    early = sum(finite[:quarter]) / quarter
    late = sum(finite[-quarter:]) / quarter
    spread = max(abs(early), abs(late), 1e-12)
    if late > 10 * abs(early) and late > 1:
        return "diverging"
    if abs(late - early) < 0.05 * spread:
        return "level"
    return "falling" if late < early else "rising"


def _nonfinite(box: BlackBox) -> Observation:
    value = next(
        (p.loss for p in box.history if p.loss is not None and not math.isfinite(p.loss)), None
    )
    if value is None and box.loss is not None and not math.isfinite(box.loss):
        value = box.loss
    name = str(value) if value is not None else "not finite"
    return Observation(
        "nonfinite-loss",
        f"The loss became {name} at step {box.first_nonfinite_step}.",
        f"box:{box.pid}",
        {"step": box.first_nonfinite_step, "value": name, "rank": box.rank},
    )


def read_settings(run: RecordedRun) -> list[Observation]:
    """DataLoader settings as built, and gradient accumulation as it really happened."""
    found: list[Observation] = []
    told: set[tuple[Any, ...]] = set()
    for box in run.boxes:
        for loader in box.loaders:
            settings = (loader.workers, loader.start_method, loader.batch_size)
            if settings in told:
                continue
            told.add(settings)
            method = (
                f" started by {loader.start_method}"
                if loader.start_method and loader.workers
                else ""
            )
            size = f", batches of {loader.batch_size}" if loader.batch_size else ""
            found.append(
                Observation(
                    "loader",
                    f"A DataLoader with {counted(loader.workers, 'worker')}{method}{size}.",
                    f"box:{box.pid}",
                    {
                        "workers": loader.workers,
                        "start_method": loader.start_method,
                        "batch_size": loader.batch_size,
                        "persistent": loader.persistent,
                        "pin_memory": loader.pin_memory,
                    },
                )
            )
    box_of_training = run.training_box
    ratio = box_of_training.backward_per_step if box_of_training else None
    if box_of_training is not None and ratio is not None and ratio > 1.05:
        found.append(
            Observation(
                "accumulation",
                f"Gradients were accumulated: {ratio:.3g} backward passes per optimiser step.",
                f"box:{box_of_training.pid}",
                {
                    "backward_per_step": ratio,
                    "backward_calls": box_of_training.backward_calls,
                    "optimizer_steps": box_of_training.optimizer_steps,
                },
            )
        )
    return found


def read_loaded_files(run: RecordedRun) -> list[Observation]:
    """The last data files and checkpoints that the program opened, newest first."""
    box = run.training_box or next((box for box in run.boxes if box.files), None)
    if box is None:
        return []
    return [
        Observation(
            "file-loaded",
            f"{file_name(loaded.path)} ({loaded.size_bytes} bytes) was opened by {loaded.loader}"
            f"{', memory-mapped' if loaded.is_mapped else ''} ({loaded.path}).",
            f"box:{box.pid}",
            {
                "path": loaded.path,
                "loader": loaded.loader,
                "size_bytes": loaded.size_bytes,
                "is_mapped": loaded.is_mapped,
            },
        )
        for loaded in reversed(box.files[-_MOST_FILES:])
    ]


def read_how_far(
    run: RecordedRun, where: dict[str, Any], observations: Sequence[Observation]
) -> dict[str, Any]:
    """The facts of progress of the process that failed, at `where`, or else of the training."""
    box, process = _speaker(run, where)
    printed = _printed_by(run, process, observations)
    found = settle_progress(box, printed)
    facts = {
        "last_step": found.step,
        "optimizer_steps": counted_by(box)[0],
        "epoch": _whole(found.epoch),
        "phase": found.phase,
        "loss": _jsonable(found.loss),
        "loss_trend": loss_trend(box) if box is not None else None,
        "total": found.total,
        "batch_shapes": (box.batch_shapes or None) if box is not None else None,
        "seconds_without_step": seconds_without_a_step(run),
    }
    facts["is_first_step"] = (found.step is None and _is_in_first_step(run)) or None
    bad = next((o for o in observations if o.kind == "nonfinite-loss"), None)
    facts["nonfinite_since_step"] = bad.data.get("step") if bad else None
    return facts


def _speaker(
    run: RecordedRun, where: dict[str, Any]
) -> tuple[BlackBox | None, ProcessRecord | None]:
    """Of several programs that a launcher starts, the one that failed; else the training."""
    named = _CHILD.search(str(where.get("process") or ""))
    process = next((p for p in run.processes if named and p.pid == int(named["pid"])), None)
    if process is not None and process.role == "child":
        box = run.box_of(process)
        if box is not None or process is not run.main:
            return box, process
    return training_of(run.boxes, run.processes)


def _printed_by(
    run: RecordedRun, process: ProcessRecord | None, observations: Sequence[Observation]
) -> PrintedPoint | None:
    """The last progress in the output, if this process can have printed it."""
    point = run.printed or _from_text(observations)
    if run.printed is None or process is None or process.role != "child":
        return printed_by(process, point) if run.printed is not None else point
    ended = process.ended_t_seconds or run.end_t_seconds
    others = [p for p in run.processes if p.parent_pid == process.parent_pid]
    begun = [p.started_t_seconds for p in others if p.started_t_seconds > process.started_t_seconds]
    is_of_another = any(ended - SEEN_LATE_SECONDS <= t <= run.printed.t_seconds for t in begun)
    return None if is_of_another else printed_by(process, run.printed)


def _from_text(observations: Sequence[Observation]) -> PrintedPoint | None:
    """As read in the output of a run that is older than its recorder's own reading of progress."""
    printed = [o for o in observations if o.kind == "progress" and o.source.startswith("output:")]
    if not printed:
        return None
    said = printed[-1].data
    point = PrintedPoint(math.inf, said.get("step"), said.get("total"), said.get("epoch"))
    loss = said.get("loss")
    return replace(point, loss=None if loss is None else float(loss), phase=said.get("phase"))


def _is_in_first_step(run: RecordedRun) -> bool:
    """Whether an exception came when the training had begun, and before its first step was done."""
    raised = [box for box in run.boxes if box.exception_type]
    return any(
        not box.optimizer_steps and box.phase in ("train", "backward", "step") for box in raised
    )


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _jsonable(loss: object) -> object:
    """NaN and infinity have no number in JSON: they go as text."""
    return str(loss) if isinstance(loss, float) and not math.isfinite(loss) else loss


def seconds_without_a_step(run: RecordedRun) -> float | None:
    """How long before the end the last step was, if that is far longer than a step had taken."""
    printed, box = run.printed, run.training_box
    times = [printed.t_seconds] if printed is not None else []
    times += [box.last_progress_t_seconds or 0.0] if box is not None else []
    if not times or printed is None or printed.steps < _STEPS_OF_A_PACE:
        return None
    pace = printed.t_seconds / max(printed.steps / max(printed.every or 1, 1), 1)
    quiet = run.end_t_seconds - max(times)
    return round(quiet, 1) if quiet >= max(_LONG_SECONDS, _LONG_PACES * pace) else None
