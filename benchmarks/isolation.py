"""What does it cost to find the change that removes a random failure, and is the answer right?

    python -m benchmarks.isolation --truths 1000

Simulated ground truths: 16 changes, of which one alone removes the failure, or two are needed
together, or either of two suffices, or none does; the failure comes at a constant rate, and a run
of reference length crashes with probability 0.5, 0.3 or 0.1 (and, apart from these, at one place
of a run with some probability, and never elsewhere). Besides: versions, two of each of eight
packages, of which a trial has one; 3 to 12 edits; and 16 commits in order.

Four strategies answer: rerail's planner; one factor at a time, each change run until it crashes or
its clean stretch reaches the confidence (divided among the changes, so that the whole answer has
it); ddmin, each test repeated until a crash or a clean stretch; and random order: any change, later
any pair, that no crash has ruled out, run by run, with rerail's inference. Cost is exposure in mean
times to failure. `--history` crashes of the unchanged command are on record before the
investigation begins and cost nothing; the clean runs among them are on record too.

Besides, the planner's time per decision at 30 changes, and what a trial costs beside its command
(`--costs` measures these two alone).
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pool

from benchmarks.isolation_costs import print_costs
from benchmarks.isolation_rivals import ddmin, draw_in_random_order, one_factor_at_a_time
from benchmarks.isolation_truths import (
    CHANGES,
    MEAN_STEPS,
    VERSION_PAIRS,
    Answer,
    Setting,
    World,
    diagnosis_weights,
    draw_truth,
)
from rerail.experiments.planner.commits import CommitSearch
from rerail.experiments.planner.inquiry import Investigation
from rerail.survival import classify

CRASH_PROBABILITIES = (0.5, 0.3, 0.1)
BUDGET_MEANS = 80.0
RATE_KNOWN = 100  # crashes on record: the rate to within a tenth
OTHER_RECORDS = (1000, 20, 5, 3)


def investigate(world: World, setting: Setting) -> Answer:
    crashed, clean = world.history(setting.history)
    weights = diagnosis_weights(world.truth, world.rng) if setting.with_diagnosis else None
    # The planner cannot know the changes' order, and the simulation must not favour one.
    changes = world.rng.sample(CHANGES[: setting.changes], setting.changes)
    investigation = Investigation(
        changes,
        weights,
        setting.confidence,
        classify(crashed, clean),
        run_length=world.run_steps,
        overhead=0.02 * MEAN_STEPS,
        exclusive=VERSION_PAIRS if setting.has_versions else (),
    )
    while world.used_steps < BUDGET_MEANS * MEAN_STEPS:
        if setting.strategy == "random":
            if investigation.is_decided:
                break
            result = world.run(draw_in_random_order(investigation, world.rng), world.run_steps)
        else:
            plan = investigation.next_trial()
            if plan is None:
                break
            result = world.run(frozenset(plan.changes), plan.exposure_limit)
        investigation.record(result)
    verdict = investigation.verdict()
    if verdict.status == "confirmed":
        return frozenset(verdict.changes)
    return frozenset() if verdict.status == "none-of-these" else None


def search_commits(world: World, setting: Setting) -> Answer:
    """The changes are commits in order, the oldest first; those before the culprit are clean."""
    crashed, clean = world.history(setting.history)
    planner = CommitSearch(CHANGES, setting.confidence, classify(crashed, clean))
    planner.run_length, planner.overhead = world.run_steps, 0.02 * MEAN_STEPS
    while world.used_steps < BUDGET_MEANS * MEAN_STEPS:
        plan = planner.next_trial()
        if plan is None:
            break
        planner.record(world.run(frozenset(plan.changes), plan.exposure_limit))
    verdict = planner.verdict()
    if verdict.status == "confirmed":
        return frozenset(verdict.changes)
    return frozenset() if verdict.status == "none-of-these" else None


STRATEGIES: dict[str, Callable[[World, Setting], Answer]] = {
    "rerail": investigate,
    "commits": search_commits,
    "one at a time": one_factor_at_a_time,
    "ddmin": ddmin,
    "random": investigate,
}


@dataclass
class Tally:
    right: int = 0
    wrong: int = 0
    open: int = 0
    confirmed: int = 0
    confirmed_wrong: int = 0
    cost_means: float = 0.0
    cost_squares: float = 0.0
    runs: int = 0

    @property
    def total(self) -> int:
        return self.right + self.wrong + self.open

    @property
    def error(self) -> float:
        """The standard error of the mean cost."""
        mean = self.cost_means / self.total
        return math.sqrt(max(0.0, self.cost_squares / self.total - mean * mean) / self.total)

    def add(self, other: Tally) -> None:
        self.right += other.right
        self.wrong += other.wrong
        self.open += other.open
        self.confirmed += other.confirmed
        self.confirmed_wrong += other.confirmed_wrong
        self.cost_means += other.cost_means
        self.cost_squares += other.cost_squares
        self.runs += other.runs


def measure(job: tuple[Setting, int, int]) -> tuple[Setting, Tally]:
    setting, seed, truths = job
    tally = Tally()
    for i in range(truths):
        rng = random.Random(f"{setting.kind} {setting.crash_probability} {seed} {i}")
        if setting.shape != 1.0 or setting.is_race:  # a run that wears out reaches its age
            run_steps = 3.0 * MEAN_STEPS
        else:
            run_steps = -MEAN_STEPS * math.log1p(-setting.crash_probability)
        race = setting.crash_probability if setting.is_race else 0.0
        truth = draw_truth(setting.kind, rng, CHANGES[: setting.changes])
        world = World(truth, run_steps, rng, setting.shape, setting.spread, race)
        answer = STRATEGIES[setting.strategy](world, setting)
        is_right = answer in world.truth.answers or not (answer or world.truth.answers)
        if answer is None:
            tally.open += 1
        elif is_right:
            tally.right += 1
        else:
            tally.wrong += 1
        if answer:
            tally.confirmed += 1
            tally.confirmed_wrong += not is_right
        tally.cost_means += world.used_steps / MEAN_STEPS
        tally.cost_squares += (world.used_steps / MEAN_STEPS) ** 2
        tally.runs += world.runs
    return setting, tally


def tables(args: argparse.Namespace) -> Iterator[tuple[str, int, list[Setting]]]:
    """Titles, how many truths, and the lines."""
    known, confidence = args.history, args.confidence
    strategies = args.strategies or [name for name in STRATEGIES if name != "commits"]
    asked = ("single", "together", "none")  # the mix that the verdict's calibration is held to
    few = max(1, args.truths // 10)
    for strategy in strategies:
        settings = [
            Setting(strategy, kind, p, known, confidence)
            for kind in asked
            for p in CRASH_PROBABILITIES
        ]
        yield f"{strategy}, flat priors", args.truths, settings
        if strategy == "rerail":
            settings = [
                Setting("rerail", kind, p, known, confidence, with_diagnosis=True)
                for kind in asked
                for p in (CRASH_PROBABILITIES if kind == "single" else (0.3,))
            ]
            yield "rerail, the diagnosis's priors", args.truths, settings
    if "rerail" not in strategies:
        return
    yield (
        "rerail, versions: two of each of eight packages",
        args.truths,
        [
            Setting("rerail", kind, 0.3, crashes, confidence, has_versions=True)
            for kind in ("single", "either version", "together", "none")
            for crashes in (known, 5)
        ],
    )
    yield (
        "rerail, few edits",
        args.truths,
        [
            Setting("rerail", kind, 0.3, 5, confidence, changes=edits)
            for kind in ("single", "together", "none")
            for edits in (3, 6, 12)
        ],
    )
    yield (
        "rerail, which commit of 16",
        args.truths,
        [Setting("commits", "commit", p, 5, confidence) for p in CRASH_PROBABILITIES],
    )
    yield (
        "rerail, rate known better and worse",
        max(1, args.truths // 2),
        [
            Setting("rerail", "single", 0.3, crashes, confidence, with_diagnosis=diagnosed)
            for crashes in OTHER_RECORDS
            for diagnosed in (False, True)
        ],
    )
    yield (
        "rerail, either of two suffices",
        few,
        [Setting("rerail", "either", p, known, confidence) for p in CRASH_PROBABILITIES],
    )
    yield (
        "rerail, rate learnt from one crash",
        few,
        [
            Setting("rerail", kind, 0.3, 1, confidence)
            for kind in ("single", "together", "either", "none")
        ],
    )
    yield (
        "rerail, at one place, but not in every run",
        max(1, args.truths // 5),
        [
            Setting("rerail", kind, p, 1, confidence, is_race=True)
            for kind in ("single", "together", "none")
            for p in (1.0, 0.9, 0.7, 0.5)
        ],
    )
    yield (
        "rerail, what the model does not expect",
        few,
        [
            Setting("rerail", "halved", 0.3, known, confidence),
            Setting("rerail", "single, others halve", 0.3, known, confidence),
            Setting("rerail", "two sources", 0.3, known, confidence),
            Setting("rerail", "single", 0.3, known, confidence, spread=0.5),
            Setting("rerail", "none", 0.3, known, confidence, spread=0.5),
            Setting("rerail", "single", 0.5, known, confidence, shape=3.0),
            Setting("rerail", "none", 0.5, known, confidence, shape=3.0),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--truths", type=int, default=1000, help="ground truths per line")
    parser.add_argument("--confidence", type=float, default=0.99)
    parser.add_argument(
        "--history", type=int, default=RATE_KNOWN, help="crashes on record, free of charge"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first 25 truths of a line")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--strategies", nargs="*", choices=list(STRATEGIES))
    parser.add_argument("--tables", nargs="*", help="only those with one of these in the title")
    parser.add_argument("--costs", action="store_true", help="only planner and trial times")
    args = parser.parse_args()
    print_costs()
    if args.costs:
        return
    with Pool(args.processes) as pool:
        for title, truths, settings in tables(args):
            if args.tables and not any(part in title for part in args.tables):
                continue
            share = max(1, min(25, truths))
            seeds = range(args.seed, args.seed + truths // share)
            jobs = [(s, n, share) for s in settings for n in seeds]
            tallies: dict[Setting, Tally] = {setting: Tally() for setting in settings}
            for setting, tally in pool.imap_unordered(measure, jobs):
                tallies[setting].add(tally)
            _print_table(title, tallies)


def _print_table(title: str, tallies: dict[Setting, Tally]) -> None:
    on_record = {setting.history for setting in tallies}
    truths = {tally.total for tally in tallies.values()}
    print(f"\n{title} (crashes on record: {_listed(on_record)}; truths a line: {_listed(truths)})")
    heads = ("right", 7), ("wrong", 7), ("open", 6), ("cost", 6), ("+-", 5), ("runs", 6)
    print(f"{'truth':28} {'p':>4} " + " ".join(f"{head:>{width}}" for head, width in heads))
    confirmed = wrong = 0
    for setting, tally in tallies.items():
        n = tally.total
        label = setting.kind
        label += ", diagnosed" * setting.with_diagnosis
        label += f", {setting.history} known" * (len(on_record) > 1)
        label += f", {setting.changes} changes" * (setting.changes != len(CHANGES))
        label += f", spread {setting.spread:g}" * (setting.spread > 0)
        label += f", shape {setting.shape:g}" * (setting.shape != 1.0)
        print(
            f"{label:28.28} {setting.crash_probability:4.1f} {tally.right / n:7.1%}"
            f" {tally.wrong / n:7.1%} {tally.open / n:6.1%} {tally.cost_means / n:6.2f}"
            f" {tally.error:5.2f} {tally.runs / n:6.1f}",
            flush=True,
        )
        wrong += tally.confirmed_wrong
        confirmed += tally.confirmed
    print(f"wrong among confirmed: {wrong / max(confirmed, 1):.2%} of {confirmed}", flush=True)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


if __name__ == "__main__":
    main()
