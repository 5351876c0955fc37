"""Journals of studies with anything in them, through the commands that read one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from fuzz_bars import Bars
from fuzz_mutations import mutate_bytes, mutate_json_lines, replace_by_special
from fuzz_runner import Target

_STUDY = """
command = "python train.py --seed {seed}"
seeds = [1, 2]
[axes]
"--lr" = [0.1, 0.2]
[metrics.loss]
output = 'loss ([0-9.]+)'
goal = "min"
"""
_CELLS = [f"lr={lr}_seed={seed}" for lr in ("0.1", "0.2") for seed in (1, 2)]


def _event(kind: str, **fields: Any) -> str:
    return json.dumps({"schema": 1, "unix": 1760000000.0, "kind": kind, **fields})


def _journal() -> str:
    lines = [_event("study-started", cells=len(_CELLS))]
    usage = {"peak_rss_bytes": 1e9, "cpu_seconds": 3.5, "disk_bytes": 10}
    for number, cell in enumerate(_CELLS):
        lines.append(
            _event("cell-started", cell=cell, attempt=1, label="x", key="k", changes=["a"])
        )
        lines.append(
            _event(
                "cell-ended",
                cell=cell,
                verdict="died" if number % 2 else "ok",
                run="r",
                summary="s",
                cause="native-segfault",
                probability=0.9,
                seconds=1.5,
                usage=usage,
                decision="again",
                next_changes=["--workers 0"],
                failure="gave up" if number == 3 else "",
            )
        )
        if not number % 2:
            files = [{"path": "w.pt", "size_bytes": 3, "sha256": "0" * 64}]
            done = {"metrics": {"loss": 0.5}, "missing_metrics": {"x": "why"}, "files": files}
            lines.append(_event("cell-done", cell=cell, key="k", **done))
    lines.append(_event("cell-failed", cell=_CELLS[3], why="it died"))
    lines.append(_event("cell-again", cell=_CELLS[3]))
    return "\n".join(lines) + "\n"


def make(rng: random.Random, folder: Path) -> Path:
    path = folder / "grid.toml"
    path.write_text(_STUDY)
    journal = folder / "grid.study" / "journal.jsonl"
    journal.parent.mkdir()
    if rng.random() < 0.85:
        journal.write_text(mutate_json_lines(rng, _journal()), errors="replace")
    else:
        journal.write_bytes(mutate_bytes(rng, _journal().encode()))
    if rng.random() < 0.05:
        replace_by_special(rng, journal.with_name(rng.choice(("journal.jsonl", "lock"))))
    return path


def check(path: Path, bars: Bars) -> None:
    bars.command("study", "status", str(path))
    bars.command("study", "status", str(path), "--json")
    bars.command("study", "report", str(path))


TARGET = Target(make, check, cases=120)
