"""The packages of the experiments import each other in one direction."""

from __future__ import annotations

import re
from pathlib import Path

from rerail import experiments

PACKAGE = Path(experiments.__file__).parent
# Earliest first; those of one line do not import each other.
ORDER = [
    {"planner"},
    {"edits", "environments"},
    {"trials"},
    {"reproducer"},
    {"isolation", "verification"},
]


def level_of(name: str) -> int:
    return next(at for at, names in enumerate(ORDER) if name in names)


def test_a_package_imports_only_those_before_it() -> None:
    wrong = []
    for path in sorted(PACKAGE.glob("*/*.py")):
        own = path.parent.name
        text = path.read_text(encoding="utf-8")
        for other in set(re.findall(r"rerail\.experiments\.(\w+)", text)) - {own}:
            if level_of(other) >= level_of(own):
                wrong.append(f"{own}/{path.name} imports {other}")
    assert wrong == []


def test_the_planner_is_pure() -> None:
    """It knows no process, clock or file."""
    for path in (PACKAGE / "planner").glob("*.py"):
        imported = re.findall(r"(?m)^\s*(?:from|import) ([\w.]+)", path.read_text())
        ours = {name for name in imported if name.startswith("rerail.")}
        own = {name for name in ours if name.startswith("rerail.experiments.planner.")}
        assert ours - own <= {"rerail.survival", "rerail.wording"}, path.name
        assert not {"os", "time", "pathlib", "subprocess"} & set(imported), path.name
