"""Reading the numbers that a study compares.

In: a metric of the study file, the working folder of a cell, and the record of its run. Out: a
number, or a sentence on why there is none. NaN and the infinities are no numbers to compare.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rerail.store import FileTooLarge, RunFolder, read_regular
from rerail.study.model import Metric

MOST_BYTES = 64 << 20  # of a file of numbers; a line for each step of a long training fits


class NoNumber(Exception):
    """Why a metric has no value, as a sentence."""


def read_metrics(
    metrics: Sequence[Metric], work: Path, run: RunFolder | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Values by name, and reasons by name for those that have none."""
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    for metric in metrics:
        try:
            values[metric.name] = _read(metric, work, run)
        except NoNumber as reason:
            missing[metric.name] = str(reason)
    return values, missing


def _read(metric: Metric, work: Path, run: RunFolder | None) -> float:
    if metric.output:
        found = list(_from_output(metric.output, run))
        where = "the output"
    else:
        found = list(_from_file(work / metric.file, metric.key))
        where = metric.file
    finite = [value for value in found if math.isfinite(value)]
    if not found:
        raise NoNumber(f"{where} does not say it")
    if not finite or (metric.take == "last" and not math.isfinite(found[-1])):
        raise NoNumber(f"{where} says {found[-1]}")
    if metric.take == "last":
        return found[-1]
    return {"first": finite[0], "max": max(finite), "min": min(finite)}[metric.take]


def _from_output(pattern: str, run: RunFolder | None) -> Iterator[float]:
    if run is None:
        return
    compiled = re.compile(pattern)
    for line in run.output():
        for found in compiled.finditer(line.text.decode("utf-8", "replace")):
            number = _number(found[1])
            if number is not None:
                yield number


def _from_file(path: Path, key: str) -> Iterator[float]:
    """Every value of the key: one of a .json file, one per line of a .jsonl file."""
    try:
        text = read_regular(path, MOST_BYTES, follows_links=True).decode()
    except FileTooLarge as error:
        raise NoNumber(f"{path.name} cannot be read: {error.strerror}") from None
    except (OSError, UnicodeDecodeError):
        raise NoNumber(f"there is no {path.name} to read") from None
    for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
        try:
            value = json.loads(part) if part.strip() else None
        except (ValueError, RecursionError):
            raise NoNumber(f"{path.name} is not whole JSON") from None
        number = _number(_at(value, key))
        if number is not None:
            yield number


def _at(value: Any, key: str) -> Any:
    """`val.psnr` of {"val": {"psnr": 1}}; a key with a dot in it is found as it stands."""
    if isinstance(value, dict) and key in value:
        return value[key]
    for part in key.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.lstrip("-").isdigit():
            at = int(part)
            value = value[at] if -len(value) <= at < len(value) else None
        else:
            return None
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
