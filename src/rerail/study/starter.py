"""A first study file, made from a command that a person already types.

In: the words of a command and the folder that it is typed in. Out: commented TOML that loads as it
stands: one cell, which is the command. Options that could be axes are offered in comments.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from rerail.platform.patterns import linear
from rerail.study.file import is_there

_NUMBER = linear(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SEED = {"--seed", "--random-seed", "--random_seed", "--manual-seed", "--manual_seed", "-s"}
_OUT = linear(r"--(out|output|save|log|work|run|result)s?([-_]?(dir|folder|path|file|to))?")
_MOST_OFFERS = 4


def write_starter(command: Sequence[str], base: Path) -> str:
    words, seed = _with_seed(list(command))
    inputs = _inputs(words, base)
    offers = _offers(words)
    outputs = _outputs(words)
    lines = [
        "# A study: the same command under every configuration, each a recorded run.",
        "# Start it, or continue it after anything: rerail study FILE",
        "",
        f"command = {_text(shlex.join(words))}",
    ]
    if seed is None:
        lines += [
            "# seeds = [0, 1, 2]           # every configuration once per seed: write {seed} above",
        ]
    else:
        lines += [f"seeds = [{seed}]                   # add more for mean and spread"]
    lines += [
        "",
        "# Every cell runs in an empty folder of its own. What it reads from here is linked there.",
        f"inputs = [{', '.join(map(_text, inputs))}]",
        "",
        "# What must be there, whole, when a cell is done; collected with checksums.",
    ]
    if outputs:
        lines += [f"artifacts = [{', '.join(map(_text, outputs))}]"]
    else:
        lines += ['# artifacts = ["weights/*.pt", "metrics.json"]']
    lines += [
        "",
        "# The grid: an option ('--lr', taken out of the command above), a VARIABLE of the",
        "# environment, or a name that stands as {name} in the command.",
        "[axes]",
        *(f"# {_text(name)} = [{value}, {_another(value)}]" for name, value in offers),
    ]
    if not offers:
        lines += ['# "--lr" = [0.001, 0.01]']
    lines += _REST
    return "\n".join(lines) + "\n"


_REST = [
    "",
    "# A configuration beside the grid:",
    "# [[cell]]",
    '# name = "baseline"',
    '# "--lr" = 0.1',
    "",
    "# Numbers to compare: of a JSON or JSONL file, or by a pattern in the output.",
    "# [metrics.accuracy]",
    '# file = "metrics.json"',
    '# key = "val.accuracy"',
    '# goal = "max"',
    "# [metrics.loss]",
    "# output = 'loss[ =]([-+.0-9e]+)'",
    "",
    "# How a cell that was cut short goes on; without this it begins anew.",
    "# [resume]",
    '# checkpoint = "weights/last.pt"',
    '# arguments = "--resume {checkpoint}"',
    "",
    "[limits]",
    "jobs = 1                       # cells at once",
    "# cores = 2                    # per cell",
    '# memory = "8GiB"              # a cell above it is stopped',
    '# time = "2h"',
    '# stall = "10m"                # no step and no output for so long is a hang',
    "# retries = { default = 2, native-segfault = 3 }",
]


def _with_seed(words: list[str]) -> tuple[list[str], str | None]:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in _SEED:
            continue
        if equals and value.isdigit():
            return [*words[:at], f"{name}={{seed}}", *words[at + 1 :]], value
        if not equals and at + 1 < len(words) and words[at + 1].isdigit():
            return [*words[: at + 1], "{seed}", *words[at + 2 :]], words[at + 1]
    return words, None


def _inputs(words: Sequence[str], base: Path) -> list[str]:
    """Words that name something beside the study file, but not where the command writes to."""
    written = {target for _, target in _pairs(words) if _OUT.fullmatch(_)}
    found = []
    for word in words[1:]:
        path = Path(word)
        is_relative = word and not path.is_absolute() and not word.startswith("-")
        if is_relative and word not in written and is_there(base / path):
            found.append(str(path))
    return list(dict.fromkeys(found))


def _offers(words: Sequence[str]) -> list[tuple[str, str]]:
    found = [(n, v) for n, v in _pairs(words) if _NUMBER.fullmatch(v)]
    return found[:_MOST_OFFERS]


def _another(value: str) -> str:
    """A second value, so that the line works as soon as the # is taken away."""
    number = float(value) * 2 or 1.0
    return str(int(number)) if value.lstrip("+-").isdigit() else f"{number:g}"


def _outputs(words: Sequence[str]) -> list[str]:
    found = []
    for name, value in _pairs(words):
        if _OUT.fullmatch(name) and value and not Path(value).is_absolute():
            found.append(value if Path(value).suffix else f"{value.rstrip('/')}/*")
    return list(dict.fromkeys(found))


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Options with their values, in either spelling."""
    found = []
    for at, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        if equals:
            found.append((name, value))
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            found.append((name, words[at + 1]))
    return found


def _text(value: str) -> str:
    """A TOML string: JSON's spelling is one, but for what is not ASCII."""
    return json.dumps(value, ensure_ascii=False)
