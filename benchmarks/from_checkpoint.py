"""What does a proof cost from a checkpoint, and what from the beginning?

A small real training with a checkpoint every 100 steps is recorded until it dies: once of a failure
at step 2,000 of every run, and of one that comes at random, 2,000 steps apart on average. Then
`rerail isolate` looks for the change that removes it, with and without `--checkpoint`, each in a
folder of its own. Prints the steps that all trials ran, the answers, and whether the user's folder
is as it was, byte for byte. Ends with 1 if the fixed failure is not ten times cheaper, if an answer
is another one, or if a byte has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1] / "tests" / "programs" / "checkpoint_trains.py"
BAR = 10.0
KINDS = {"at step 2,000": ["--dies-at", "2000"], "at random": ["--dies-one-in", "2000"]}
RESUMING = ["--checkpoint", "out/*.pt", "--resume-args", "--resume {checkpoint}"]


def command(kind: str) -> list[str]:
    lengths = ["--steps", "100000", "--every", "100"]
    return [sys.executable, str(PROGRAM), "--out", "out", *lengths, *KINDS[kind]]


def rerail(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "rerail", *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=3600)


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def isolate(folder: Path, kind: str, *options: str) -> dict[str, Any]:
    tries = ["--try", "--colour blue", "--try", "--safe"]
    done = rerail(
        folder,
        *("isolate", "--yes", "--home", "home", "--json", "--no-raise-hazard"),
        *(*options, *tries, "--", *command(kind)),
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def compare(kind: str, parent: Path) -> dict[str, Any]:
    with_one = parent / "with"
    with_one.mkdir(parents=True)
    rerail(with_one, "run", "-q", "--no-explain", "--home", "home", "--", *command(kind))
    without_one = parent / "without"
    # The record holds the folder's path: without one it is made again, of the same program.
    without_one.mkdir()
    rerail(without_one, "run", "-q", "--no-explain", "--home", "home", "--", *command(kind))
    before = contents(with_one / "out")
    found = isolate(with_one, kind, *RESUMING)
    plain = isolate(without_one, kind)
    return {
        "kind": kind,
        "with": found["exposure_used"],
        "without": plain["exposure_used"],
        "ratio": round(plain["exposure_used"] / max(1, found["exposure_used"]), 1),
        "seconds": [found["seconds"], plain["seconds"]],
        "trials": [len(found["trials"]), len(plain["trials"])],
        "answers": [[each["status"], each["changes"]] for each in (found, plain)],
        "start": found["start"],
        "untouched": contents(with_one / "out") == before,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    is_met = True
    for kind in KINDS:
        for number in range(arguments.rounds):
            folder = Path(tempfile.mkdtemp(prefix="rerail-from-checkpoint-"))
            try:
                found = compare(kind, folder / str(number))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            first, second = found["answers"]
            is_met &= found["untouched"] and first == second
            if kind == "at step 2,000":
                is_met &= found["ratio"] >= BAR
            if arguments.json:
                print(json.dumps(found), flush=True)
                continue
            print(
                f"{kind}: {found['with']} steps with checkpoints, {found['without']} without"
                f" ({found['ratio']} times), {found['trials']} trials, {found['seconds']} s,"
                f" answers {first} and {second}, start {found['start']['state']},"
                f" user's folder {'untouched' if found['untouched'] else 'CHANGED'}",
                flush=True,
            )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
