"""How many runs does the commit take that brought a random failure, and is the answer right?

    python -m benchmarks.commits --histories 400

Simulated histories; 95 % are asked. A run of a bad commit fails at its third step with the chance
given and else ends at its tenth; or it fails at a constant rate, once in 100 steps, and ends at
300. Beside rerail's search: `git bisect run` with each clean commit repeated until the answer has
95 %, told the chance, which nobody knows; the same made safe down to one in five; and git_bayesect
itself, where it is installed, stopped at 95 %. Then edits: of 3 to 12 edits one brings it, or two
together, or none of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import random
from collections.abc import Callable
from multiprocessing import Pool
from typing import NamedTuple

from rerail.experiments.planner.commits import CommitSearch
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import TrialResult

CONFIDENCE = 0.95
CHANCES = (1.0, 0.5, 0.2)
RAREST = 0.2
MOST_TRIALS = 2000
_LENGTH, _MEAN = 300.0, 100.0


class Found(NamedTuple):
    is_right: bool
    is_open: bool
    runs: int


Run = Callable[[tuple[str, ...], bool, float], TrialResult]


def short_program(chance: float, draw: random.Random) -> Run:
    def run(changes: tuple[str, ...], is_bad: bool, limit: float) -> TrialResult:
        if is_bad and draw.random() < chance:
            return TrialResult.of(changes, 3, "crashed")
        return TrialResult.of(changes, 10, "survived", True)

    return run


def constant_rate(draw: random.Random) -> Run:
    def run(changes: tuple[str, ...], is_bad: bool, limit: float) -> TrialResult:
        dies = math.ceil(draw.expovariate(1.0 / _MEAN)) if is_bad else math.inf
        end = min(_LENGTH, limit)
        if dies < end:
            return TrialResult.of(changes, dies, "crashed")
        return TrialResult.of(changes, end, "survived", end == _LENGTH)

    return run


def follow(planner: Investigation, run: Run, is_bad: Callable[[tuple[str, ...]], bool]) -> None:
    for _ in range(MOST_TRIALS):
        plan = planner.next_trial()
        if plan is None:
            return
        planner.record(run(plan.changes, is_bad(plan.changes), plan.exposure_limit))


def search(commits: int, chance: float | None, draw: random.Random) -> Found:
    """`chance` None: at a constant rate."""
    first_bad = draw.randrange(commits)
    planner = CommitSearch([f"git:{i}" for i in range(commits)], CONFIDENCE)
    if chance is None:
        planner.run_length = _LENGTH
    run = constant_rate(draw) if chance is None else short_program(chance, draw)

    def is_bad(changes: tuple[str, ...]) -> bool:
        return not changes or commits - int(changes[0].removeprefix("git:")) <= first_bad

    follow(planner, run, is_bad)
    is_open = planner.verdict().status == "inconclusive"
    return Found(planner.first_bad() == [first_bad], is_open, len(planner.trials))


def halve(commits: int, chance: float, told: float, draw: random.Random) -> Found:
    """`git bisect run`, each clean commit repeated as `told` takes; the good one is believed."""
    first_bad = draw.randrange(commits)
    steps = math.log2(commits)
    repeats = 1
    if told < 1.0:
        repeats = math.ceil(math.log((1.0 - CONFIDENCE) / steps) / math.log1p(-told))
    low, high, runs = 0, commits, 0  # steps before the newest: low fails, high does not
    while high - low > 1:
        middle = (low + high) // 2
        failed = False
        for _ in range(repeats):
            runs += 1
            failed = middle <= first_bad and draw.random() < chance
            if failed:
                break
        low, high = (middle, high) if failed else (low, middle)
    return Found(low == first_bad, False, runs)


def bayesect(commits: int, chance: float, draw: random.Random) -> Found:
    from git_bayesect import Bisector  # type: ignore[import-not-found]

    first_bad = draw.randrange(commits)
    bisector = Bisector([1] * (commits + 1))
    for runs in range(MOST_TRIALS):
        likeliest = max(range(commits + 1), key=bisector.distribution.__getitem__)
        if bisector.distribution[likeliest] >= CONFIDENCE:
            return Found(likeliest == first_bad, False, runs)
        at = bisector.select()
        bisector.record(at, at <= first_bad and draw.random() < chance)
    return Found(False, True, MOST_TRIALS)


def take_back(edits: int, chance: float, kind: str, draw: random.Random) -> Found:
    names = [f"edit:train.py:{i}" for i in range(edits)]
    culprits = set(draw.sample(names, {"one": 1, "together": 2, "none": 0}[kind]))
    planner = Investigation(draw.sample(names, edits), confidence=CONFIDENCE)
    run = short_program(chance, draw)

    def is_bad(changes: tuple[str, ...]) -> bool:
        return not culprits or not culprits <= set(changes)

    follow(planner, run, is_bad)
    verdict = planner.verdict()
    if verdict.status == "none-of-these":
        return Found(not culprits, False, len(planner.trials))
    is_right = verdict.status == "confirmed" and set(verdict.changes) == culprits
    return Found(is_right, verdict.status == "inconclusive", len(planner.trials))


class Line(NamedTuple):
    who: str
    count: int
    chance: float | None
    kind: str = ""


def one(job: tuple[Line, int]) -> tuple[Line, Found]:
    line, seed = job
    draw = random.Random(f"{line} {seed}")
    if line.who == "rerail":
        return line, search(line.count, line.chance, draw)
    if line.who == "edits":
        return line, take_back(line.count, line.chance or 1.0, line.kind, draw)
    assert line.chance is not None
    if line.who == "git_bayesect":
        return line, bayesect(line.count, line.chance, draw)
    told = line.chance if line.who == "bisect, told" else RAREST
    return line, halve(line.count, line.chance, told, draw)


def lines(counts: list[int]) -> list[Line]:
    others = ["bisect, told", "bisect, 1 in 5"]
    if importlib.util.find_spec("git_bayesect"):
        others.append("git_bayesect")
    found = [Line(who, n, c) for n in counts for c in CHANCES for who in ("rerail", *others)]
    found += [Line("rerail", n, None) for n in counts]
    kinds = ("one", "together", "none")
    return found + [Line("edits", n, c, k) for n in (3, 6, 12) for c in CHANCES for k in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--histories", type=int, default=400, help="of each line")
    parser.add_argument("--commits", type=int, nargs="*", default=[10, 30, 128])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--who", nargs="*", help="only these: rerail, edits, git_bayesect, ...")
    args = parser.parse_args()
    print(f"{'':15} {'of':>4} {'fails':>6} {'':9} {'runs':>6} {'wrong':>6} {'open':>5}")
    sums: dict[str, list[int]] = {}
    with Pool(args.processes) as pool:
        for line in lines(args.commits):
            if args.who and line.who not in args.who:
                continue
            jobs = [(line, seed) for seed in range(args.histories)]
            found = [each for _, each in pool.imap_unordered(one, jobs, chunksize=5)]
            wrong = sum(not each.is_right and not each.is_open for each in found)
            chance = "rate" if line.chance is None else f"{line.chance:g}"
            print(
                f"{line.who:15} {line.count:4} {chance:>6} {line.kind:9}"
                f" {sum(each.runs for each in found) / len(found):6.1f}"
                f" {wrong / len(found):6.1%} {sum(each.is_open for each in found):5}",
                flush=True,
            )
            total = sums.setdefault(line.who, [0, 0])
            total[0] += wrong
            total[1] += len(found)
    for who, (wrong, count) in sums.items():
        print(f"{who}: wrong in {wrong / count:.1%} of {count}, {1 - CONFIDENCE:.0%} allowed")


if __name__ == "__main__":
    main()
