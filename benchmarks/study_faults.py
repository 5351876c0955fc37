"""Does a study lose anything when it is killed again and again?

One study runs undisturbed. The same study then runs under random SIGKILLs: of the study, of a cell,
of a cell's recorder, of all of them at once; a killed study is started again. Afterwards every cell
must be done, every artifact must have the same checksum, and no folder may hold anything more.
Prints one line per kind of kill and the ratio of equal artifacts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "tests" / "programs" / "study_train.py"
DEADLINE_SECONDS = 600.0
STUDY = """
command = "{python} {program} --seed {{seed}} --steps 20 --step-seconds {pace}"
seeds = [0, 1]
artifacts = ["weights/final.npz", "metrics.json"]

[axes]
"--lr" = [0.1, 0.2]
"--width" = [2, 4]

[metrics.score]
file = "metrics.json"
key = "val.score"

[resume]
checkpoint = "weights/checkpoint.json"

[limits]
jobs = {jobs}
retries = 1000
"""
# What differs by nature: times, run ids, the pid of the last start.
BOOKKEEPING = {"journal.jsonl", "lock", "report.html", "table.csv", "rerail-cell.json"}


def write_study(folder: Path, pace: float, jobs: int) -> Path:
    folder.mkdir()
    path = folder / "s.toml"
    path.write_text(STUDY.format(python=sys.executable, program=PROGRAM, pace=pace, jobs=jobs))
    return path


def start(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rerail", "study", str(path)],
        cwd=path.parent,
        stdout=subprocess.DEVNULL,
        stderr=(path.parent / "said.txt").open("ab"),
        env={**os.environ, "RERAIL_HOME": str(path.parent / "home")},
    )


def contents(folder: Path) -> dict[str, str]:
    """Every file of the study's folder with its checksum."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in BOOKKEEPING
    }


def family(study: int) -> tuple[list[int], list[int]]:
    """The recorders at work (not the one that waits for its turn), and the cells below them."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_bytes()
            except OSError:
                continue
            parent = int(text[text.rindex(b")") + 2 :].split()[1])
            parents.setdefault(parent, []).append(int(entry.name))
    recorders = [pid for pid in parents.get(study, []) if parents.get(pid)]
    cells = [
        child
        for recorder in recorders
        for child in parents.get(recorder, [])
        if b"study_train.py" in _command(child)
    ]
    return recorders, cells


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def kill(pids: list[int]) -> bool:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(pids)


def disturb(path: Path, kills: int, chance: random.Random, mean_seconds: float) -> dict[str, int]:
    """Run the study to its end under so many kills; how many of each kind there were."""
    counts: dict[str, int] = {}
    deadline = time.monotonic() + DEADLINE_SECONDS
    study = start(path)
    while sum(counts.values()) < kills:
        time.sleep(chance.expovariate(1.0 / mean_seconds))
        if study.poll() is not None:
            break  # done before all kills were dealt
        recorders, cells = family(study.pid)
        kind = chance.choices(["study", "cell", "recorder", "everything"], [5, 4, 2, 1])[0]
        targets = {
            "study": [study.pid],
            "cell": cells,
            "recorder": recorders[:1],
            "everything": [study.pid, *recorders, *cells],
        }[kind]
        if kill(targets):
            counts[kind] = counts.get(kind, 0) + 1
        if study.pid in targets:
            study.wait()
            study = start(path)
        if time.monotonic() > deadline:
            raise RuntimeError("the study did not end")
    study.wait(DEADLINE_SECONDS)
    return counts


def compare(quiet: Path, disturbed: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "study", "report", "--json", str(disturbed / "s.toml")],
        capture_output=True,
        text=True,
        check=False,
    )
    table = json.loads(done.stdout)
    wanted, found = contents(quiet / "s.study"), contents(disturbed / "s.study")
    results = {name for name in wanted if name.startswith("results/")}
    return {
        "cells": len(table["cells"]),
        "done": table["done"],
        "attempts": sum(len(cell["attempts"]) for cell in table["cells"]),
        "artifacts": len(results),
        "equal": sum(found.get(name) == wanted[name] for name in results),
        "missing": sorted(set(wanted) - set(found)),
        "extra": sorted(set(found) - set(wanted)),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pace", type=float, default=0.15, help="seconds per step")
    parser.add_argument("--every", type=float, default=0.4, help="mean seconds between kills")
    parser.add_argument("--folder", help="where to work, kept afterwards")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.folder or temporary
        quiet, disturbed = Path(scratch) / "quiet", Path(scratch) / "disturbed"
        start(write_study(quiet, 0.0, 1)).wait(DEADLINE_SECONDS)
        began = time.monotonic()
        path = write_study(disturbed, options.pace, options.jobs)
        # The pace is no part of what is computed; the folders are compared without it.
        counts = disturb(path, options.kills, random.Random(options.seed), options.every)
        result = compare(quiet, disturbed)
        result |= {"kills": counts, "seconds": round(time.monotonic() - began, 1)}
    if options.json:
        print(json.dumps(result))
    else:
        for name, count in counts.items():
            print(f"{count:4} kills of: {name}")
        if (dealt := sum(counts.values())) < options.kills:
            print(f"only {dealt} of {options.kills} kills were dealt: --every less, --pace more")
        print(f"cells done: {result['done']} of {result['cells']}, attempts {result['attempts']}")
        print(f"missing: {result['missing']}, extra: {result['extra']}")
        print(f"equal artifacts: {result['equal']}/{result['artifacts']} in {result['seconds']} s")
    is_good = sum(counts.values()) == options.kills
    is_good &= result["equal"] == result["artifacts"] and result["done"] == result["cells"]
    return 0 if is_good and not result["extra"] and not result["missing"] else 1


if __name__ == "__main__":
    sys.exit(main())
