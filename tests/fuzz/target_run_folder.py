"""Run folders with anything in them, through every command that reads one."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from functools import cache
from pathlib import Path
from typing import Any

from fuzz_bars import Bars, Finding
from fuzz_mutations import (
    mutate_bytes,
    mutate_json,
    mutate_json_lines,
    replace_by_special,
)
from fuzz_runner import HERE, Target

RECORDING = HERE.parent / "recordings" / "schema-1" / "segfault"
RUN, HEALTHY = "20260101-000001-bbbb", "20260101-000000-aaaa"
_EVERY = (
    "stalls.jsonl",
    "progress.jsonl",
    "steps.jsonl",
    "investigation.json",
    "verification.json",
    "vitals.recent.old.jsonl",
    "output.tail-1.log",
    "agent/1-1.box",
    "agent/1-1.crash",
    "maps/1-1.json",
    "crashes.json",
)
_COMMANDS = (
    ("explain", RUN),
    ("show", RUN),
    ("report", RUN, "-o", "report.html"),
    ("report", RUN, "--md", "-o", "report.md"),
    ("pack", RUN, "-o", "pack.zip"),
    ("runs",),
)
_TRIAL = {
    "changes": ["--workers 0"],
    "outcome": "crashed",
    "exposure": 117,
    "unit": "steps",
    "seconds": 9.1,
    "cause": "native-segfault",
    "run": HEALTHY,
}
_INVESTIGATION = {
    "schema": 1,
    "status": "confirmed",
    "changes": ["--workers 0"],
    "confidence": 0.99,
    "alternatives": [["--miner none"]],
    "ruled_out": ["--accum 1"],
    "trials": [_TRIAL],
    "posterior": {"a": 0.4},
    "summary": ["text"],
    "references": [_TRIAL],
}
_STACK = {
    "thread_id": 9,
    "name": "MainThread",
    "native": [],
    "is_crashed": False,
    "waits_for": "futex",
    "python": [{"file": "train.py", "line": 3, "function": "step"}],
}
_STALL = {
    "t_seconds": 2.0,
    "silent_seconds": 60.0,
    "threshold_seconds": 30.0,
    "action": "report",
    "stacks": {"20592-472000": [_STACK]},
    "summary": "waits",
}
_POINT = {"t_seconds": 3.0, "step": 12, "total": 90, "epoch": 1.5, "loss": 0.5, "steps": 12}


@cache
def _extra() -> dict[str, bytes]:
    """Files that the recording lacks, so that their readers have something to read."""
    investigation = json.dumps(_INVESTIGATION).encode()
    return {
        "stalls.jsonl": json.dumps(_STALL).encode() + b"\n",
        "progress.jsonl": json.dumps(_POINT).encode() + b"\n",
        "steps.jsonl": b'{"pid": 1, "step": 12, "t_seconds": 3.0, "loss": 0.5}\n',
        "investigation.json": investigation,
        "verification.json": investigation,
        "vitals.recent.old.jsonl": (RECORDING / "vitals.recent.jsonl").read_bytes(),
        "output.tail-1.log": b"step 900 loss nan\nRuntimeError: CUDA out of memory\n",
        "maps/1-1.json": (RECORDING / "maps" / "20592-472000.json").read_bytes(),
    }


def make(rng: random.Random, folder: Path) -> Path:
    """A store with one good run and one that was damaged in a few places."""
    runs = folder / "home" / "runs"
    runs.mkdir(parents=True)
    for name in (HEALTHY, RUN):
        shutil.copytree(RECORDING, runs / name)
    damaged = runs / RUN
    for name, data in _extra().items():
        if rng.random() < 0.5:
            (damaged / name).write_bytes(data)
    if rng.random() < 0.5:  # what is on record is not made anew
        (damaged / "diagnosis.json").unlink()
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        _damage(rng, damaged)
    if rng.random() < 0.15:
        _damage_store(rng, folder / "home")
    return folder


def _damage(rng: random.Random, run: Path) -> None:
    files = [p for p in sorted(run.rglob("*")) if p.is_file() and not p.is_symlink()]
    if rng.random() < 0.15:
        names = (*_EVERY, *(str(path.relative_to(run)) for path in files))
        path = run / rng.choice(names)
        if path.parent.is_dir() and not path.parent.is_symlink():
            replace_by_special(rng, path)
        return
    if not files:
        return
    path = rng.choice(files)
    if path.stat().st_size > 1 << 21:
        return
    kind = rng.random()
    if path.suffix == ".box" and kind < 0.7:
        _damage_box(rng, path)
    elif path.suffix == ".json" and kind < 0.8:
        path.write_text(mutate_json(rng, path.read_text(errors="replace")), errors="replace")
    elif path.suffix == ".jsonl" and kind < 0.8:
        path.write_text(mutate_json_lines(rng, path.read_text(errors="replace")), errors="replace")
    elif kind < 0.9:
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))
    elif kind < 0.95:
        path.unlink()
    else:
        folder = rng.choice((run / "agent", run / "maps"))
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() and not folder.is_symlink():
            folder.symlink_to(rng.choice(("/", "/dev", "..", "missing")))


def _damage_box(rng: random.Random, path: Path) -> None:
    octets = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 5, 200))):
        at = rng.randrange(max(1, len(octets) // 8)) * 8
        word = rng.choice((0, 1, -1, 2**31, 2**62, -(2**62), rng.getrandbits(62), 65535))
        octets[at : at + 8] = struct.pack("=q", word)
    path.write_bytes(octets)


def _damage_store(rng: random.Random, home: Path) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        names = ("index.sqlite", "index.sqlite-wal", "sizes.jsonl")
        replace_by_special(rng, home / rng.choice(names))
    elif kind == 1:
        os.mkfifo(home / "runs" / "20260101-000002-cccc")
    elif kind == 2:
        link = home / "runs" / "20260101-000002-cccc"
        link.symlink_to(rng.choice(("/", "..", "/dev", "missing")))
    elif kind == 3:
        (home / "runs" / "a\x1b[2J\nb").mkdir()
        shutil.copy(RECORDING / "run.json", home / "runs" / "a\x1b[2J\nb" / "run.json")
    else:
        (home / "index.sqlite").write_bytes(b"SQLite format 3\0" + rng.randbytes(4000))


def check(folder: Path, bars: Bars) -> None:
    home = ["--home", str(folder / "home")]
    # Some by text and some by JSON: the seed is in the folder, so this is the same at a replay.
    wants_json = (folder / "home" / "runs" / RUN / "diagnosis.json").exists()
    for command in _COMMANDS:
        as_json = wants_json != (command[0] in ("show", "runs")) or command[0] == "runs"
        bars.command(*command, *home, *(["--json"] if as_json else []))
    listed = bars.command("runs", *home, "--json", statuses=(0,))
    bars.command("runs", *home, statuses=(0,))
    document: dict[str, Any] = json.loads(listed.out)
    if HEALTHY not in [run["id"] for run in document["runs"]]:
        raise Finding("the healthy run is not listed")


TARGET = Target(make, check, cases=50)
