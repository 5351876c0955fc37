"""What one line of a training's output says of how far it is: every shape that rerail knows.

In: one line, without escapes of the terminal. Out: `Printed` (step, total, epoch, loss, phase), or
None where the line tells of no progress. Logs are read with it after the fact, and the recorder
reads with it what a program prints while it runs. Promises: never raises; linear in the line, of
which nothing past `LONGEST` characters is read; numbers are bounded (`MOST`).

`SHAPES` are whole lines of one framework, by which the parts of the line are known. What no shape
fits is read by single words (`step 12/100`, `Epoch 3`, `loss: 0.5`) and by progress bars. The
wordings are in catalogue/wordings/printed_progress.toml.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rerail.platform.patterns import LinearPattern, LinearSet, linear
from rerail.platform.wordings import wordings

LONGEST = 2000  # characters of a line that tells of progress
MOST = 1 << 53  # no training counts further, and JSON keeps every number below it exact

Unit = Literal["", "step", "bar"]


class Shape(NamedTuple):
    name: str
    pattern: LinearPattern
    is_index: bool = False  # its first step has the number 0: one more is done than it says
    unit: Unit = "step"


_WORDINGS = wordings("printed_progress")
SHAPES = tuple(Shape(each.name, each.pattern, **each.fields) for each in _WORDINGS.of("shape"))
_STEP, _EPOCH, _SETTING = (_WORDINGS[name] for name in ("step", "epoch", "setting"))
_BAR, _LOSS, _GRADIENT = (_WORDINGS[name] for name in ("bar", "loss", "gradient"))
_IS_LOSS = _WORDINGS["is-loss"]
_SIZE_OR_SHARE = _WORDINGS["size-or-share"]
_PHASE = _WORDINGS["phase"]
_TIME_OF_DAY = _WORDINGS["time-of-day"]
_WORDS = {"bar": _BAR, "step": _STEP, "epoch": _EPOCH, "loss": _LOSS, "gradient": _GRADIENT}
_POSSIBLE = LinearSet([*(shape.pattern for shape in SHAPES), *_WORDS.values(), _SETTING])
_NAMES = [*_WORDS, "setting"]
_MOST_FOUND = 5  # steps, epochs or settings of one line that are looked at
_OF_TRAINING = _WORDINGS["of-training"]
_TITLE = linear(r"[A-Za-z][A-Za-z _/.-]{2,}")
_TROUBLE = _WORDINGS["trouble"]
# Hugging Face's last line: its loss is the mean of all steps.
_SUMMARY = "train_runtime"
_KEEPS = _WORDINGS["keeps"]


@dataclass(frozen=True)
class Printed:
    """What one line states."""

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    loss: float | None = None
    is_validation_loss: bool = False  # the line names no other
    phase: str | None = None
    gradient_norm: float | None = None
    unit: Unit = ""  # what `step` is counted by: a word, or a bar, which may count something else
    is_index: bool = False  # the program counts from 0, and `step` is one more than it printed


def read_line(text: str) -> Printed | None:
    """The progress that a line states, or None."""
    if len(text) > LONGEST:
        return None
    possible = _POSSIBLE.possible(text)
    if not possible:
        return None
    shapes = [SHAPES[at] for at in possible if at < len(SHAPES)]
    words = {_NAMES[at - len(SHAPES)] for at in possible if at >= len(SHAPES)}
    for shape in shapes:
        if found := shape.pattern.search(text):
            return _of_shape(shape, found.groupdict(), text, words)
    return _of_words(text, words) if words - {"setting"} else None


def _of_shape(
    shape: Shape, groups: dict[str, str | None], text: str, words: set[str]
) -> Printed | None:
    phase = groups.get("phase")
    step, total = _whole(groups.get("step")), _whole(groups.get("total"))
    if phase in ("val", "test"):
        step = total = None  # of an evaluation, whose end is not the training's
    if step is not None and shape.is_index:
        step += 1
    loss, is_validation = _number(groups.get("loss")), False
    if "metric" in groups:
        loss = _number(groups["value"]) if _IS_LOSS.search(groups["metric"] or "") else None
    elif loss is None and "loss" in words:
        loss, is_validation = _loss(_LOSS.findall(text))
    gradient = _GRADIENT.search(text) if "gradient" in words else None
    return Printed(
        step=step,
        total=total,
        epoch=_number(groups.get("epoch")),
        epochs=_whole(groups.get("epochs")),
        loss=loss,
        is_validation_loss=is_validation,
        phase=phase,
        gradient_norm=_number(gradient.group(1)) if gradient else None,
        unit=shape.unit if step is not None else "",
        is_index=shape.is_index,
    )


def _of_words(text: str, words: set[str]) -> Printed | None:
    if _TROUBLE.search(text[:400]):
        return None
    settings = _settings(text) if "setting" in words else []
    bar = _bar(text) if "bar" in words else None
    step = _step(text, settings) if "step" in words else None
    epoch = _epoch(text, settings) if "epoch" in words else None
    losses = _LOSS.findall(text) if "loss" in words and _SUMMARY not in text else []
    gradient = _GRADIENT.search(text) if "gradient" in words else None
    if not (bar or step or epoch or losses or gradient):
        return None
    if not (bar or losses or gradient) and _KEEPS.search(text[:400]):
        return None
    counted = step or bar
    at, total = (
        ([_whole(n) for n in counted.groups() if n] + [None])[:2] if counted else (None,) * 2
    )
    epochs = [number for number in epoch.groups() if number] if epoch else []
    phase = _PHASE.match(text)
    unit: Unit = "step" if step else "bar"
    loss, is_validation = _loss(losses)
    return Printed(
        step=at,
        total=total,
        epoch=_number(epochs[0]) if epochs else None,
        epochs=_whole(epochs[1]) if len(epochs) > 1 else None,
        loss=loss,
        is_validation_loss=is_validation,
        phase=phase.group(1).lower() if phase else None,
        gradient_norm=_number(gradient.group(1)) if gradient else None,
        unit=unit if at is not None else "",
    )


def _settings(text: str) -> list[tuple[int, int]]:
    return [m.span() for m in itertools.islice(_SETTING.finditer(text), _MOST_FOUND)]


def _is_set(found: re.Match[str], settings: list[tuple[int, int]]) -> bool:
    """Whether the word that was found is the last of a setting's name."""
    return any(start <= found.start() < end <= found.end() for start, end in settings)


def _bar(text: str) -> re.Match[str] | None:
    """A bar of the training itself; what loads and saves draws others beside it."""
    found = _BAR.search(text)
    if found is None or text[found.end(found.lastindex or 0) :].startswith("/"):
        return None  # Rich's logger begins a line with a date: [11/18/26 14:02:11]
    return found if is_of_training(text[: found.start()]) else None


def is_of_training(title: str) -> bool:
    """Whether what stands before a bar names the training, or nothing."""
    found = _TITLE.search(title)
    return found is None or _OF_TRAINING.search(found.group()) is not None


def _step(text: str, settings: list[tuple[int, int]]) -> re.Match[str] | None:
    for found in itertools.islice(_STEP.finditer(text), _MOST_FOUND):
        following = text[found.end() : found.end() + 40]
        is_other = _SIZE_OR_SHARE.match(following) or _TIME_OF_DAY.match(following)
        if not is_other and not _is_set(found, settings):
            return found
    return None


def _epoch(text: str, settings: list[tuple[int, int]]) -> re.Match[str] | None:
    for found in itertools.islice(_EPOCH.finditer(text), _MOST_FOUND):
        if not _is_set(found, settings):
            return found
    return None


def _loss(losses: list[tuple[str, str]]) -> tuple[float | None, bool]:
    """The training loss of a line that may name several; True if it names only another."""
    for name, value in losses:
        if "val" not in name.lower() and "test" not in name.lower():
            return _number(value), False
    return (_number(losses[0][1]), True) if losses else (None, False)


def _whole(digits: str | None) -> int | None:
    if not digits or len(digits) > 18:
        return None
    number = int(digits)
    return number if number < MOST else None


def _number(text: str | None) -> float | None:
    return float(text) if text else None
