"""The rows of deaths.toml, and what is wrong with an answer to one of them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from foreign_runs import line_of

LAUNCHERS = {
    "python": ["python"],
    # On CPUs it starts one process, whatever number it is given.
    "accelerate": ["accelerate", "launch", "--cpu", "--num_processes", "1"],
    "torchrun": ["torchrun", "--standalone", "--nproc-per-node", "2"],
}


@dataclass(frozen=True)
class Death:
    name: str
    what: str
    framework: str
    program: str
    arguments: str
    causes: list[str]
    headline: str
    remedies: list[str]
    dies: str | None = None
    launcher: str = "python"
    how: str = "plain"
    options: tuple[str, ...] = ()
    status: int | None = None
    not_yet: str = ""  # what the answer still gets wrong: a strict xfail with this reason


def read_deaths() -> list[Death]:
    text = Path(__file__).with_name("deaths.toml").read_text()
    return [Death(name, **fields) for name, fields in tomllib.loads(text).items()]


def judged(death: Death, answer: dict[str, Any]) -> dict[str, str]:
    """What is wrong with an answer, by the part of it; nothing where all of it is right."""
    wrong = {}
    first = answer["causes"][0] if answer["causes"] else {"id": None, "remedies": []}
    if first["id"] not in death.causes:
        wrong["cause"] = f"{first['id']}, not {' or '.join(death.causes)}"
    if not re.search(death.headline, answer["headline"]):
        wrong["headline"] = f"{answer['headline']!r} has no {death.headline!r}"
    if death.dies is not None:
        where = answer["facts"].get("where", {})
        said = (Path(where.get("file", "")).name, where.get("line"))
        right = (death.program, line_of(death.program, death.dies))
        if said != right:
            wrong["where"] = f"{said[0]}:{said[1]}, not {right[0]}:{right[1]}"
    remedies = [remedy["id"] for remedy in first["remedies"][:1]]
    if not set(remedies) & set(death.remedies):
        wrong["remedy"] = f"{remedies}, not {' or '.join(death.remedies)}"
    return wrong
