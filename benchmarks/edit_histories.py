"""Which commit or edit brought a failure that comes at random: real repositories, real trials.

    python -m benchmarks.edit_histories

Twenty generated repositories: twelve histories of 10 to 200 commits (`isolate --bisect`), eight
working trees with 3 to 12 edits (`isolate --edits`). One commit or edit makes the program fail in
every run, in every second or in every fifth one; the others change it too, and do not matter.
Printed: whether the answer is right, the runs that it took, and the runs of `git bisect run` with
each clean commit repeated until 95 % are reached: once told how often the program fails, which
nobody knows, and once so that it holds down to one in five.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CONFIDENCE = 0.95
RAREST = 0.2
CHANCES = (1.0, 0.5, 0.2)
COMMITS = ((10, 10, 50, 200), (10, 20, 50, 100), (10, 20, 50, 100))  # for each chance
EDITS = ((3, 6, 12), (3, 6, 12), (3, 8))


@dataclass(frozen=True)
class Case:
    kind: str  # commits, edits
    count: int
    chance: float


def cases() -> list[Case]:
    found = []
    for at, chance in enumerate(CHANCES):
        found += [Case("commits", count, chance) for count in COMMITS[at]]
        found += [Case("edits", count, chance) for count in EDITS[at]]
    return found


def program(values: list[int], chance: float) -> str:
    """Parts far enough from each other that each is an edit of its own."""
    parts = [
        f"def part_{i}(total):\n    total += {value}\n    return total % 1000\n"
        for i, value in enumerate(values)
    ]
    calls = "\n".join(f"total = part_{i}(total)" for i in range(len(values)))
    risk = f"def risk():\n    return random.SystemRandom().random() < {chance}\n"
    body = "\n\n".join(["import random\n", *parts, risk])
    end = 'if risk():\n    raise RuntimeError("the loss is not finite")\nprint(total)\n'
    return f"{body}\n\ntotal = 0\n{calls}\n{end}"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "gc.auto=0")
    words = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def make(case: Case, folder: Path, draw: random.Random) -> tuple[list[str], str]:
    """The question, and what the answer has to name."""
    git(folder, "init", "--quiet")
    culprit = draw.randrange(case.count)
    file = folder / "train.py"
    values = [0] * (12 if case.kind == "commits" else case.count - 1)

    def write(chance: float) -> None:
        file.write_text(program(values, chance))

    write(0.0)
    git(folder, "add", "train.py")
    git(folder, "commit", "--quiet", "-m", "It works")
    if case.kind == "edits":
        values[:] = [each + 1 for each in values]
        write(case.chance)
        line = (
            file.read_text()
            .split("\n")
            .index(f"    return random.SystemRandom().random() < {case.chance}")
        )
        return ["--edits"], f"edit:train.py:{line + 1}"
    good = git(folder, "rev-parse", "HEAD")
    for number in range(case.count):
        values[number % len(values)] += 1 + number
        write(case.chance if number >= culprit else 0.0)
        git(folder, "commit", "--quiet", "-am", f"Commit {number}")
    return ["--bisect", f"{good}..HEAD"], f"Commit {culprit}"


def runs_of_halving(case: Case, chance: float) -> float:
    """Of `git bisect run`, on average: a bad commit fails after 1 / chance, a clean one is repeated
    until the whole answer has the confidence."""
    steps = math.log2(case.count)
    if chance >= 1.0:
        return steps
    repeats = math.ceil(math.log((1.0 - CONFIDENCE) / steps) / math.log1p(-chance))
    return 0.5 * steps * (repeats + 1.0 / case.chance)


def ask(case: Case, seed: int) -> tuple[str, int, float, str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "repository")
        folder.mkdir()
        question, wanted = make(case, folder, random.Random(f"{case} {seed}"))
        words = [
            sys.executable,
            "-m",
            "rerail",
            "isolate",
            "--yes",
            "--json",
            "--home",
            f"{name}/home",
        ]
        words += [
            "--confidence",
            str(CONFIDENCE),
            "--budget",
            "20m",
            "--no-raise-hazard",
            *question,
        ]
        started = time.monotonic()
        done = subprocess.run(
            [*words, "--", sys.executable, "train.py"], cwd=folder, capture_output=True, text=True
        )
        took = time.monotonic() - started
    if not done.stdout:
        return f"no answer: {done.stderr.strip()[-200:]}", 0, took, wanted
    document = json.loads(done.stdout)
    if document["status"] != "confirmed":
        return document["status"], len(document["trials"]), took, wanted
    if case.kind == "edits":
        named = " and ".join(document["changes"])
    else:
        named = " or ".join(each["subject"] for each in document["bisect"]["first_bad"])
    return (
        ("right" if named == wanted else f"wrong: {named}"),
        len(document["trials"]),
        took,
        wanted,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=20, help="how many of the repositories")
    args = parser.parse_args()
    print(f"{'':8} {'of':>4} {'fails':>6} {'runs':>5} {'told':>6} {'1 in 5':>7} {'s':>6}  answer")
    right = total = 0
    for case in cases()[: args.most]:
        answer, runs, took, wanted = ask(case, args.seed + total)
        total += 1
        right += answer == "right"
        told = runs_of_halving(case, case.chance) if case.kind == "commits" else math.nan
        safe = runs_of_halving(case, RAREST) if case.kind == "commits" else math.nan
        print(
            f"{case.kind:8} {case.count:4} {case.chance:6} {runs:5} {told:6.0f} {safe:7.0f}"
            f" {took:6.0f}  {answer} ({wanted})",
            flush=True,
        )
    print(f"right: {right} of {total}, at {CONFIDENCE:.0%} asked", flush=True)


if __name__ == "__main__":
    main()
