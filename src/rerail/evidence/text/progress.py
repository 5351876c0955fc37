"""How far training had come, and how its loss was, as its own lines say.

In: clean lines. Out: `ProgressPoint`s in order (step, epoch, phase, loss, total), the lines that
say that it finished, and whether the loss was still finite at the end. A line with an error on it
is no progress.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from rerail.evidence.text.lines import Line
from rerail.platform.patterns import LinearSet, linear

LINES_READ = 2000  # at a time, from the end

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf(?:inity)?)"
# One step or one epoch is counted; "steps = 46" and "epochs: 3" are settings, unless it is "3/10".
_STEP = linear(
    r"(?:^|[^\w/])(?:(?:global[_ ]?step|step|iter(?:ation)?|batch|it|i)\b\"?'?"
    r"[\s:=#\[(]*(\d+)(?:\s*(?:/|of)\s*(\d+))?"
    r"|(?:steps|iters|iterations|batches)\b\"?'?[\s:=#\[(]*(\d+)\s*(?:/|of)\s*(\d+))",
    re.IGNORECASE,
)
_SIZE_OR_SHARE = linear(r"[\d.]*\s*(?:[KMGT]i?B\b|%)", re.IGNORECASE)  # "step 12 MB" is no step
_EPOCH = linear(
    r"(?:^|\W)(?:epoch\"?'?[\s:=#\[(]*'?(\d+(?:\.\d+)?)|epochs\W{1,3}(\d+)\s*/\s*\d)", re.IGNORECASE
)
# "steps per epoch = 46", "max_epoch: 3", "every epoch 5": what is set, not what is done.
_SETTING = linear(
    r"(?:^|\W)(?:per|every|each|max|num|number of|total|save|log|warm-?up)[-_ ](?:\w+[-_ ])?"
    r"(?:epoch|step|iter(?:ation)?|batch)s?\b",
    re.IGNORECASE,
)
_BAR = linear(
    r"(?:^|[^\d/])(?P<a>\d+)/(?P<of_a>\d+) ?(?:\[\d+:\d\d|\[[=>.]{5,}\]|\S{0,3} ?\d+:\d\d:\d\d)"
    r"|[━╸╺]+\s+(?P<b>\d+)/(?P<of_b>\d+)|\]\[\s*(?P<c>\d+)/(?P<of_c>\d+)\]"
)
_LOSS = linear(
    r"(?:^|[^A-Za-z])"
    r"((?:train|training|val|valid|validation|total|avg|mean|running|dice|ce|step|batch)?"
    r"[-_ /.]?(?:loss|objective|nll))"
    rf"\"?'?(?:\s*\([a-z]+\))?\s*[:=|]?\s*'?({_NUMBER})\b",
    re.IGNORECASE,
)
_GRADIENT = linear(rf"grad(?:ient)?[-_ ]?norm\"?'?\s*[:=|]?\s*'?({_NUMBER})\b", re.IGNORECASE)
_PHASE = linear(
    r"^\W*(train(?:ing)?|val(?:id(?:ation|ating)?)?|eval(?:uat(?:ion|ing|e))?|test(?:ing)?|mining|saving)\b",
    re.IGNORECASE,
)
_FORMS = {"bar": _BAR, "step": _STEP, "epoch": _EPOCH, "loss": _LOSS, "gradient": _GRADIENT}
_POSSIBLE = LinearSet([*_FORMS.values(), _SETTING])
_NAMES = [*_FORMS, "setting"]
_MOST_STEPS = 5  # of one line that are looked at
# What stands before a bar, where it tells of training; "Loading checkpoint shards" does not.
_OF_TRAINING = linear(
    r"train|epoch|step|iter|batch|fit|valid|eval|test|sanity|predict|\bit\b|loss|rank",
    re.IGNORECASE,
)
_TITLE = linear(r"[A-Za-z][A-Za-z _/.-]{2,}")
_TROUBLE = linear(r"error|exception|traceback|fatal|failed|abort|warn", re.IGNORECASE)
# What was trained so far is written to a file: no step was made.
_KEEPS = linear(r"(?i)\b(?:sav(?:ing|ed)|export(?:ing|ed)|writ(?:ing|ten|e)|wrote)\b")
_WORK = (
    r"(?:training|train|fine-?tuning|pre-?training|run|job|everything|all|fit|optimi[sz]ation"
    r"|experiment)"
)
_WORK_FINISHED = linear(
    rf"(?i)^\W*(?:\[?(?:info|epoch \d+)\]?\W*)?(?:the |your |all )?{_WORK}"
    r"(?: is| was| has| run)? (?:completed?|finished|done|ended|succeeded|complete)\b"
)
_ONE_OF_SEVERAL = linear(r"(?i)(?:epoch|step) \d+ (?:of|/)")
_FINISHED = linear(
    r"(?i)^\W*(?:\[?(?:info|epoch \d+)\]?\W*)?"
    r"(?:finished (?:training|train|run|fine-?tuning|all)\b|all done\b|done[.!]*$"
    r"|completed successfully|`?Trainer\.fit`? stopped: `?max_(?:epochs|steps)"
    r"|(?:final|last) (?:model|weights|checkpoint) (?:was )?saved|best model saved|model saved to"
    r"|saved? (?:the )?final (?:model|checkpoint)|successfully (?:finished|completed))"
    r"|train_runtime'?: |training complete in|total training time|^\W*goodbye"
    r"|optimi[sz]ation finished|finished successfully|\d+ epochs completed in|exits successfully"
    r"|process to finish\W+\(success\)"
    r"|training (?:has )?(?:finished|completed)(?: successfully)?\W*(?:in|after|,|$)"
)
_FINISH_WORDS = (
    *("finish", "complet", "done", "ended", "succe", "saved", "stopped", "goodbye"),
    *("train_runtime", "training time"),
)
_NOT_FINISHED = linear(
    r"(?i)\bnot |fail|error|abort|interrupt|killed|unexpected|before|terminated"
    r"|with exit code [1-9]"
)


@dataclass(frozen=True)
class ProgressPoint:
    line: Line
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    loss: float | None = None
    phase: str | None = None
    gradient_norm: float | None = None

    @property
    def is_finite(self) -> bool:
        return all(v is None or math.isfinite(v) for v in (self.loss, self.gradient_norm))


def read_progress(line: Line) -> ProgressPoint | None:
    """The progress that a line states, or None."""
    text = line.text
    if len(text) > 2000:
        return None
    possible = {_NAMES[at] for at in _POSSIBLE.possible(text)}
    if not possible - {"setting"} or _TROUBLE.search(text[:400]):
        return None
    is_setting = "setting" in possible and _SETTING.search(text) is not None
    bar = _bar(text) if "bar" in possible else None
    step = _step(text) if "step" in possible and not is_setting else None
    epoch = _EPOCH.search(text) if "epoch" in possible and not is_setting else None
    losses = _LOSS.findall(text) if "loss" in possible else []
    gradient = _GRADIENT.search(text) if "gradient" in possible else None
    if not (bar or step or epoch or losses or gradient):
        return None
    if not (bar or losses or gradient) and _KEEPS.search(text[:400]):
        return None
    at = total = None
    if step:
        at, total = ([int(number) for number in step.groups() if number] + [None])[:2]
    elif bar:
        at, total = (int(number) for number in bar.groups() if number is not None)
    phase = _PHASE.match(text)
    return ProgressPoint(
        line,
        step=at,
        total=total,
        epoch=float(epoch.group(1) or epoch.group(2)) if epoch else None,
        loss=_loss(losses),
        phase=phase.group(1).lower() if phase else None,
        gradient_norm=float(gradient.group(1)) if gradient else None,
    )


def _bar(text: str) -> re.Match[str] | None:
    """A bar of the training itself; what loads and saves draws others beside it."""
    found = _BAR.search(text)
    if found is None:
        return None
    title = _TITLE.search(text[: found.start()])
    return found if title is None or _OF_TRAINING.search(title.group()) else None


def _step(text: str) -> re.Match[str] | None:
    for found in itertools.islice(_STEP.finditer(text), _MOST_STEPS):
        if not _SIZE_OR_SHARE.match(text[found.end() : found.end() + 40]):
            return found
    return None


def _loss(losses: list[tuple[str, str]]) -> float | None:
    """The training loss of a line that may name several."""
    for name, value in losses:
        if "val" not in name.lower():
            return float(value)
    return float(losses[0][1]) if losses else None


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


def _says_finished(text: str) -> bool:
    if _FINISHED.search(text):
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
