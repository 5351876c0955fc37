"""The cells of a study: each configuration of the grid and beside it, with each seed.

In: a `Study`. Out: `Cell`s in a fixed order, each with the words and variables that it runs with,
a name that is also a folder's name, and a key of what would be run. Adding a value to an axis or a
seed to the list leaves the names of the others as they are, so that finished cells stay finished.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator

from rerail.platform.patterns import linear
from rerail.study.fields import WrongStudyFile
from rerail.study.model import Cell, ExplicitCell, Study, Value

LONGEST_NAME = 120
MOST_CELLS = 20_000  # at a minute each, two weeks
_PLACEHOLDER = re.compile(r"\{\{|\}\}|(?<!\$)\{([A-Za-z_-][\w.-]*)\}")
_UNSAFE = linear(r"[^A-Za-z0-9._=+-]+")
_VARIABLE = linear(r"[A-Z_][A-Z0-9_]*")


def expand(study: Study) -> list[Cell]:
    """Every cell of the study; two of the same name are refused."""
    used = placeholders(study)
    cells: dict[str, Cell] = {}
    count = math.prod(len(axis.values) for axis in study.axes) * max(1, len(study.seeds))
    if count > MOST_CELLS:
        raise WrongStudyFile(
            f"{study.path}:1: axes: {count} cells, and a study has at most {MOST_CELLS}",
            "Take values out of the axes, or write the cells that matter as [[cell]] tables.",
        )
    for name, parameters, line in _configurations(study):
        for seed in study.seeds or (0,):
            full = f"{name}_seed={seed}" if study.seeds else name
            if full in cells:
                raise WrongStudyFile(
                    f"{study.path}:{line}: cell: {full} is there twice",
                    "Give one of them another name, or leave it out of the grid.",
                )
            cells[full] = _cell(study, full, parameters, seed, used, line)
    return list(cells.values())


def placeholders(study: Study) -> set[str]:
    """The {names} that the command and the environment use."""
    texts = [*study.command, *study.environment.values()]
    return {found[1] for text in texts for found in _PLACEHOLDER.finditer(text) if found[1]}


def text_of(value: Value) -> str:
    if isinstance(value, tuple):
        return ",".join(text_of(each) for each in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def label_of(name: str) -> str:
    """An axis as people call it: --lr is lr."""
    return name.lstrip("-") or name


def _configurations(study: Study) -> Iterator[tuple[str, dict[str, Value], int]]:
    if study.axes:
        names = [axis.name for axis in study.axes]
        for values in itertools.product(*(axis.values for axis in study.axes)):
            parameters = dict(zip(names, values, strict=True))
            yield _name_of(parameters), parameters, 1
    for cell in study.explicit:
        yield _explicit_name(cell), dict(cell.parameters), cell.line
    if not study.axes and not study.explicit:
        yield study.name, {}, 1


def _explicit_name(cell: ExplicitCell) -> str:
    return cell.name or (_name_of(cell.parameters) if cell.parameters else "default")


def _name_of(parameters: dict[str, Value]) -> str:
    plain = "_".join(f"{label_of(k)}={text_of(v)}" for k, v in parameters.items())
    name = _UNSAFE.sub("-", plain).strip(".-") or "cell"
    if name == plain and len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{_digest(plain)[:6]}"


def _cell(
    study: Study,
    name: str,
    parameters: dict[str, Value],
    seed: int,
    used: set[str],
    line: int,
) -> Cell:
    fills = {label: text_of(value) for label, value in parameters.items()}
    fills |= {"seed": str(seed), "cell": name, "here": "{here}"}
    missing = sorted(used - set(fills))
    if missing:
        raise WrongStudyFile(
            f"{study.path}:{line}: cell: {name} gives no value for {{{missing[0]}}}",
            "Every {name} of the command needs a value in every cell.",
        )
    words = [_filled(word, fills) for word in study.command]
    environment = {key: _filled(value, fills) for key, value in study.environment.items()}
    for key, value in parameters.items():
        if key.startswith("-"):
            words += _option_words(key, value)
        elif key not in used and _VARIABLE.fullmatch(key):
            environment[key] = text_of(value)
        elif key not in used:
            words.append(f"{key}={text_of(value)}")
    environment["RERAIL_SEED"] = str(seed)
    environment["RERAIL_CELL"] = name
    # Before {here} is filled in: a study that was moved as a whole is still the same.
    key_text = json.dumps([words, environment, sorted(study.artifacts)], sort_keys=True)
    return Cell(
        name,
        parameters,
        seed,
        tuple(word.replace("{here}", str(study.base)) for word in words),
        {k: v.replace("{here}", str(study.base)) for k, v in environment.items()},
        _digest(key_text)[:16],
    )


def _filled(text: str, fills: dict[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]  # {{ and }} stand for one brace
        return fills[found[1]]

    return _PLACEHOLDER.sub(fill, text)


def _option_words(name: str, value: Value) -> list[str]:
    """true is the option alone, false is none, a list is several words."""
    if isinstance(value, bool):
        return [name] if value else []
    values = value if isinstance(value, tuple) else (value,)
    return [name, *(text_of(each) for each in values)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
