"""How far training had come, and how its loss was, as its own lines say.

In: clean lines; `platform.printed_progress` knows the shapes of one, and the words of an end are in
catalogue/wordings/progress.toml. Out: `ProgressPoint`s in order (step, epoch, phase, loss, total),
the lines that say that it finished, and whether the loss was still finite at the end. A line with
an error on it is no progress.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from rerail.evidence.text.lines import Line
from rerail.platform.printed_progress import read_line
from rerail.platform.wordings import wordings

LINES_READ = 2000  # at a time, from the end

_WORDINGS = wordings("progress")
_FINISH_WORDS = _WORDINGS.words
_WORK_FINISHED = _WORDINGS["work-finished"]
_ONE_OF_SEVERAL = _WORDINGS["one-of-several"]
_FINISHED = _WORDINGS.of("finished")
_BEGINS = _WORDINGS["begins"]
_NOT_FINISHED = _WORDINGS["not-finished"]


@dataclass(frozen=True)
class ProgressPoint:
    line: Line
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    loss: float | None = None
    phase: str | None = None
    gradient_norm: float | None = None
    is_validation_loss: bool = False

    @property
    def training_loss(self) -> float | None:
        return None if self.is_validation_loss else self.loss

    @property
    def is_finite(self) -> bool:
        return all(v is None or math.isfinite(v) for v in (self.loss, self.gradient_norm))


def read_progress(line: Line) -> ProgressPoint | None:
    """The progress that a line states, or None."""
    said = read_line(line.text)
    if said is None:
        return None
    return ProgressPoint(
        line,
        step=said.step,
        total=said.total,
        epoch=said.epoch,
        loss=said.loss,
        phase=said.phase,
        gradient_norm=said.gradient_norm,
        is_validation_loss=said.is_validation_loss,
    )


def find_progress(
    lines: Sequence[Line], source_lines: Container[tuple[int, int]] = ()
) -> list[ProgressPoint]:
    """The points of the last lines, and of as many before them as it takes to find some.

    `source_lines`: file and number of lines that a traceback quotes, which say nothing of progress.
    """
    end = len(lines)
    while end > 0:
        start = max(0, end - LINES_READ)
        if points := _points(lines[start:end], source_lines):
            return points
        end = start
    return []


def _points(lines: Sequence[Line], source_lines: Container[tuple[int, int]]) -> list[ProgressPoint]:
    return [
        point
        for line in lines
        if (line.file, line.number) not in source_lines and (point := read_progress(line))
    ]


def last_loss(points: Sequence[ProgressPoint]) -> float | None:
    """Of the training; of a validation only where nothing else was printed."""
    losses = [p.training_loss for p in points if p.training_loss is not None]
    losses = losses or [p.loss for p in points if p.loss is not None]
    return losses[-1] if losses else None


def find_finish(lines: Iterable[Line]) -> list[Line]:
    """Lines in which the program says that it has done all it set out to do."""
    return [
        line
        for line in lines
        if len(line.text) < 400
        and any(word in line.text.lower() for word in _FINISH_WORDS)
        and _says_finished(line.text)
        and not _NOT_FINISHED.search(line.text)
    ]


def last_begin(lines: Sequence[Line]) -> int:
    """The number of the last line in which training is announced; -1 where none is."""
    begins = (
        line.number
        for line in reversed(lines)
        if "rain" in line.text and _BEGINS.search(line.text[:200])
    )
    return next(begins, -1)


def _says_finished(text: str) -> bool:
    if any(each.pattern.search(text) for each in _FINISHED):
        return True
    work = _WORK_FINISHED.search(text)
    return work is not None and not _ONE_OF_SEVERAL.search(text[work.end() :])


def first_nonfinite(points: Sequence[ProgressPoint]) -> ProgressPoint | None:
    """The first point of the stretch of non-finite losses that lasts to the end, if one does."""
    first = None
    for point in points:
        if point.loss is None and point.gradient_norm is None:
            continue
        if point.is_finite:
            first = None
        elif first is None:
            first = point
    return first
