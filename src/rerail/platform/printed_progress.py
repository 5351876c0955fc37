"""What one line of a training's output says of how far it is: every shape that rerail knows.

In: one line, without escapes of the terminal. Out: `Printed` (step, total, epoch, loss, phase), or
None where the line tells of no progress. Logs are read with it after the fact, and the recorder
reads with it what a program prints while it runs. Promises: never raises; linear in the line, of
which nothing past `LONGEST` characters is read; numbers are bounded (`MOST`).

`SHAPES` are whole lines of one framework, by which the parts of the line are known. What no shape
fits is read by single words (`step 12/100`, `Epoch 3`, `loss: 0.5`) and by progress bars.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rerail.platform.patterns import LinearPattern, LinearSet, linear

LONGEST = 2000  # characters of a line that tells of progress
MOST = 1 << 53  # no training counts further, and JSON keeps every number below it exact

Unit = Literal["", "step", "bar"]

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf(?:inity)?)"
_N = r"\d{1,15}"


class Shape(NamedTuple):
    name: str
    pattern: LinearPattern
    is_index: bool = False  # its first step has the number 0: one more is done than it says
    unit: Unit = "step"
    example: str = ""


def _shape(
    name: str, pattern: str, example: str, *, is_index: bool = False, unit: Unit = "step"
) -> Shape:
    return Shape(name, linear(pattern, re.IGNORECASE), is_index, unit, example)


# The groups: step, total, epoch, epochs, loss, phase; `metric` says whether `value` is a loss.
SHAPES: tuple[Shape, ...] = (
    _shape(
        "XGBoost",
        rf"(?:^|\s)\[(?P<step>{_N})\]\t[^\t]{{1,100}}?-(?P<metric>[^\t:]+):(?P<value>{_NUMBER})\b",
        "[12]\ttrain-rmse:0.31\teval-rmse:0.40",
        is_index=True,
    ),
    _shape(
        "LightGBM",
        rf"(?:^|\s)\[(?P<step>{_N})\]\t[^\t]{{1,100}}?'s "
        rf"(?P<metric>[^\t:]+): (?P<value>{_NUMBER})\b",
        "[10]\ttraining's l2: 0.25\tvalid_1's l2: 0.3",
    ),
    _shape(
        "CatBoost",
        rf"(?:^|\s)(?P<step>{_N}):\t(?:learn: (?P<loss>{_NUMBER})\t)?(?:test: .*\t)?"
        r"total: [\d.]+ ?\w+",
        "12:\tlearn: 0.5123\ttotal: 3.1ms\tremaining: 5.2s",
        is_index=True,
    ),
    _shape(
        "MMEngine",
        rf"\b(?:Epoch|Iter)\((?P<phase>train|val|test)\)\s*(?:\[\s*(?P<epoch>{_N})\])?"
        rf"\s*\[\s*(?P<step>{_N})/\s*(?P<total>{_N})\]",
        "Epoch(train) [1][10/234]  lr: 1.0000e-02  eta: 0:10:00  loss: 2.1",
    ),
    _shape(
        "fairseq",
        rf"(?:^|[\s|])epoch (?P<epoch>{_N}):\s+(?P<step>{_N}) / (?P<total>{_N})\b",
        "| epoch 001:     50 / 1000 loss=9.1, ppl=550, wps=1000, num_updates=50",
    ),
    _shape(
        "Megatron",
        rf"(?:^|[\s\]])iteration\s+(?P<step>{_N})/\s*(?P<total>{_N}) \|",
        " iteration      100/  500000 | elapsed time per iteration (ms): 12.3 | lm loss: 6.2E+00 |",
    ),
    _shape(
        "Ultralytics",
        rf"^\s*(?P<epoch>{_N})/(?P<epochs>{_N})\s+[\d.]+[GM]\s.*:\s+\d+%.*?"
        rf"(?:^|\s)(?P<step>{_N})/(?P<total>{_N})\s",
        "      3/100      0.95G      1.234      2.345         45        640:  50%|█████     "
        "| 5/10 [00:01<00:01,  4.9it/s]",
        unit="bar",
    ),
    _shape(
        "DeepSpeed",
        rf"(?:^|\s)steps: (?P<step>{_N}) loss: (?P<loss>{_NUMBER}) iter time\b",
        "steps: 10 loss: 2.1000 iter time (s): 0.512 samples/sec: 8.0",
    ),
    _shape(
        "two counts in brackets",
        rf"^\W*\[(?P<epoch>{_N})/(?P<epochs>{_N})\]\s?\[\s*(?P<step>{_N})/\s*(?P<total>{_N})\]",
        "[5/20][30/300] Loss_D: 0.3 Loss_G: 2.1",
    ),
    _shape(
        "epoch and step in brackets",
        rf"^\[(?P<epoch>{_N}),\s+(?P<step>{_N})\] loss: (?P<loss>{_NUMBER})\b",
        "[5,  2000] loss: 2.173",
    ),
    _shape(
        "Keras",
        rf"^\W*(?P<step>{_N})/(?:(?P<total>{_N})|Unknown) (?:━|- \d+m?s\b|\d+m?s \d+m?s/)",
        "37/100 ━━━━━━━━━━━━━━━━━━━━ 1s 5ms/step - loss: 0.43",
        unit="bar",
    ),
    _shape(
        "scikit-learn's boosting",
        rf"^ {{1,9}}(?P<step>{_N}) +(?P<loss>-?\d+\.\d{{4}}) +(?:-?\d+\.\d{{4}} +)?\d+\.\d\d[smh]$",
        "         7           0.9876            0.05s",
    ),
    _shape(
        "scikit-learn's histogram boosting",
        rf"^\[(?P<step>{_N})/(?P<total>{_N})\] \d+ trees?, ",
        "[7/100] 1 tree, 31 leaves, max depth = 9, train loss: 0.51234, in 0.010s",
    ),
    _shape(
        "scikit-learn's forests",
        rf"^building tree (?P<step>{_N}) of (?P<total>{_N})$",
        "building tree 7 of 100",
    ),
)
# Metrics that are smaller for a better model, as in the agent's hooks; an AUC is no loss.
_IS_LOSS = linear(r"loss|rmse|rmsle|mae|mse|error|deviance|mape|nll|^l[12]$", re.IGNORECASE)

# One step or one epoch is counted; "steps = 46" and "epochs: 3" are settings, unless it is "3/10".
_STEP = linear(
    r"(?:^|[^\w/])(?:(?:global[_ ]?step|step|iter(?:ation)?|batch|it|i)\b\"?'?"
    r"[\s:=#\[(]*(\d+)(?:\s*(?:/|of)\s*(\d+))?"
    r"|(?:steps|iters|iterations|batches)\b\"?'?[\s:=#\[(]*(\d+)\s*(?:/|of)\s*(\d+))",
    re.IGNORECASE,
)
_SIZE_OR_SHARE = linear(r"[\d.]*\s*(?:[KMGT]i?B\b|%)", re.IGNORECASE)  # "step 12 MB" is no step
_TIME_OF_DAY = linear(r" \d\d:\d\d:\d\d\b")  # Tornado's logger: [I 261119 21:22:57 cv:61]
_EPOCH = linear(
    r"(?:^|\W)(?:epoch\"?'?[\s:=#\[(]*'?(\d+(?:\.\d+)?)(?:\s*/\s*(\d+))?"
    r"|epochs\W{1,3}(\d+)\s*/\s*(\d+))",
    re.IGNORECASE,
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
    r"((?:train|training|val|valid|validation|eval|test|total|avg|mean|running|dice|ce|step|batch)?"
    r"[-_ /.]?(?:loss|objective|nll))"
    rf"\"?'?(?:\s*\([a-z]+\))?\s*[:=|]?\s*'?({_NUMBER})\b",
    re.IGNORECASE,
)
_GRADIENT = linear(rf"grad(?:ient)?[-_ ]?norm\"?'?\s*[:=|]?\s*'?({_NUMBER})\b", re.IGNORECASE)
_PHASE = linear(
    r"^\W*(train(?:ing)?|val(?:id(?:ation|ating)?)?|eval(?:uat(?:ion|ing|e))?|test(?:ing)?|mining|saving)\b",
    re.IGNORECASE,
)
_WORDS = {"bar": _BAR, "step": _STEP, "epoch": _EPOCH, "loss": _LOSS, "gradient": _GRADIENT}
_POSSIBLE = LinearSet([*(shape.pattern for shape in SHAPES), *_WORDS.values(), _SETTING])
_NAMES = [*_WORDS, "setting"]
_MOST_FOUND = 5  # steps, epochs or settings of one line that are looked at
# What stands before a bar, where it tells of training; "Loading checkpoint shards" does not.
_OF_TRAINING = linear(
    r"train|epoch|step|iter|batch|fit|valid|eval|test|sanity|predict|\bit\b|loss|rank",
    re.IGNORECASE,
)
_TITLE = linear(r"[A-Za-z][A-Za-z _/.-]{2,}")
_TROUBLE = linear(r"error|exception|traceback|fatal|failed|abort|warn", re.IGNORECASE)
# Hugging Face's last line: its loss is the mean of all steps.
_SUMMARY = "train_runtime"
# What was trained so far is written to a file: no step was made.
_KEEPS = linear(r"(?i)\b(?:sav(?:ing|ed)|export(?:ing|ed)|writ(?:ing|ten|e)|wrote)\b")


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
