"""What does it cost to find the change that removes a random failure, and is the answer right?

    python -m benchmarks.isolation --truths 1000

Simulated ground truths: 16 changes, of which one alone removes the failure, or two are needed
together, or either of two suffices, or none does; the failure comes at a constant rate, and a run
of reference length crashes with probability 0.5, 0.3 or 0.1. Four strategies answer: rerail's
planner; one factor at a time, each change run until it crashes or its clean stretch reaches the
confidence (divided among the changes, so that the whole answer has it); ddmin, each test repeated
until a crash or a clean stretch; and random order: any change, later any pair, that no crash has
ruled out, run by run, with rerail's inference. Cost is exposure in mean times to failure.
`--history` crashes of the unchanged command are on record before the investigation begins and cost
nothing; the clean runs among them are on record too.

Besides, the planner's time per decision at 30 changes, and what a trial costs beside its command
(`--costs` measures these two alone).
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

from rerail.investigation import Investigation, TrialResult
from rerail.survival import Hazard, classify

MEAN_STEPS = 1000.0
CHANGES = tuple(f"change-{i:02}" for i in range(16))
CRASH_PROBABILITIES = (0.5, 0.3, 0.1)
BUDGET_MEANS = 80.0
RATE_KNOWN = 100  # crashes on record, where a line says that the rate is known well


@dataclass(frozen=True)
class Truth:
    """`rate(applied)` is the failure's rate as a share of the unchanged one."""

    rate: Callable[[frozenset[str]], float]
    answers: tuple[frozenset[str], ...]  # empty: none of these
    culprit: str | None


def draw_truth(kind: str, rng: random.Random) -> Truth:
    one, other = rng.sample(CHANGES, 2)
    both = frozenset((one, other))
    if kind == "single":
        return Truth(lambda s: 0.0 if one in s else 1.0, (frozenset((one,)),), one)
    if kind == "together":
        return Truth(lambda s: 0.0 if both <= s else 1.0, (both,), one)
    if kind == "two sources":  # each change removes one of two failures that look the same
        return Truth(lambda s: 1.0 - 0.5 * len(both & s), (both,), one)
    if kind == "either":
        answers = (frozenset((one,)), frozenset((other,)))
        return Truth(lambda s: 0.0 if both & s else 1.0, answers, one)
    if kind == "none":
        return Truth(lambda s: 1.0, (), None)
    if kind == "halved":
        return Truth(lambda s: 0.5 if one in s else 1.0, (), one)
    if kind == "single, others halve":
        return Truth(
            lambda s: 0.0 if one in s else 0.5 if other in s else 1.0, (frozenset((one,)),), one
        )
    raise ValueError(kind)


@dataclass
class World:
    """Runs the imaginary command; keeps the account."""

    truth: Truth
    run_steps: float
    rng: random.Random
    shape: float = 1.0  # of the Weibull distribution: above 1 wears out
    spread: float = 0.0  # how much the rate differs from run to run (log deviation)
    used_steps: float = 0.0
    runs: int = 0

    def run(self, applied: frozenset[str], limit: float) -> TrialResult:
        rate = self.truth.rate(applied) * math.exp(self.rng.gauss(0.0, self.spread))
        end = math.ceil(min(limit, self.run_steps))
        crash = math.inf
        if rate > 0.0:
            scale = MEAN_STEPS / math.gamma(1.0 + 1.0 / self.shape)
            crash = math.ceil(self.rng.weibullvariate(scale / rate ** (1 / self.shape), self.shape))
        self.runs += 1
        self.used_steps += min(crash, end)
        if crash <= end:
            return TrialResult.of(applied, max(crash, 1), "crashed")
        return TrialResult.of(applied, end, "survived")

    def history(self, crashes: int) -> tuple[list[float], list[float]]:
        """What was on record before: runs until so many had crashed; free of charge."""
        crashed: list[float] = []
        clean: list[float] = []
        while len(crashed) < crashes:
            result = self.run(frozenset(), math.inf)
            (crashed if result.outcome == "crashed" else clean).append(result.exposure)
        self.used_steps, self.runs = 0.0, 0
        return crashed, clean


@dataclass(frozen=True)
class Setting:
    strategy: str
    kind: str
    crash_probability: float
    history: int
    confidence: float
    with_diagnosis: bool = False
    shape: float = 1.0
    spread: float = 0.0


Answer = frozenset[str] | None  # an empty set says none of these; None says nothing


def diagnosis_weights(truth: Truth, rng: random.Random) -> dict[str, float]:
    """A diagnosis that names the right change first in 7 of 10 cases, second or third in 2."""
    weights = dict.fromkeys(CHANGES, 1.0)
    names = rng.sample(CHANGES, 3)
    place = rng.choices((0, 1, 2, None), (0.7, 0.12, 0.08, 0.1))[0]
    if truth.culprit and place is not None:
        names = [name for name in names if name != truth.culprit]
        names.insert(place, truth.culprit)
    for name, weight in zip(names, (15.0, 6.0, 3.0), strict=False):
        weights[name] = weight
    return weights


def investigate(world: World, setting: Setting) -> Answer:
    crashed, clean = world.history(setting.history)
    weights = diagnosis_weights(world.truth, world.rng) if setting.with_diagnosis else None
    # The planner cannot know the changes' order, and the simulation must not favour one.
    changes = world.rng.sample(CHANGES, len(CHANGES))
    investigation = Investigation(
        changes,
        weights,
        setting.confidence,
        classify(crashed, clean),
        run_length=world.run_steps,
        overhead=0.02 * MEAN_STEPS,
    )
    while world.used_steps < BUDGET_MEANS * MEAN_STEPS:
        if setting.strategy == "random":
            if investigation.verdict().is_final:
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


def draw_in_random_order(investigation: Investigation, rng: random.Random) -> frozenset[str]:
    """A change that no crash has ruled out; once all are, a pair."""
    crashed = [trial.changes for trial in investigation.trials if trial.outcome == "crashed"]
    for size in (1, 2):
        sets = map(frozenset, itertools.combinations(CHANGES, size))
        left = [each for each in sets if not any(each <= changes for changes in crashed)]
        if left:
            return rng.choice(left)
    return frozenset(CHANGES)


class CleanStretchTest:
    """Does the failure come under these changes? Runs until a crash or a long enough stretch."""

    def __init__(self, world: World, setting: Setting, tests: int) -> None:
        self.world = world
        crashed, clean = world.history(setting.history)
        self.crashes, self.exposure = len(crashed), sum(crashed) + sum(clean)
        self.luck = (1.0 - setting.confidence) / tests
        # More crashes of the unchanged command first, where that makes the stretches shorter.
        while self.crashes < math.log(1.0 / self.luck):
            self._note(world.run(frozenset(), world.run_steps))

    def fails(self, applied: frozenset[str]) -> bool:
        stretch = 0.0
        while Hazard(self.crashes, self.exposure).luck(stretch) > self.luck:
            result = self.world.run(applied, math.inf)
            if result.outcome == "crashed":
                self.exposure += stretch
                self._note(result)
                return True
            stretch += result.exposure
        return False

    def _note(self, result: TrialResult) -> None:
        self.crashes += result.outcome == "crashed"
        self.exposure += result.exposure


def one_factor_at_a_time(world: World, setting: Setting) -> Answer:
    test = CleanStretchTest(world, setting, len(CHANGES))
    order = list(CHANGES)
    if setting.with_diagnosis:
        weights = diagnosis_weights(world.truth, world.rng)
        order.sort(key=lambda change: -weights[change])
    for change in order:
        if not test.fails(frozenset((change,))):
            return frozenset((change,))
    return frozenset()


def ddmin(world: World, setting: Setting) -> Answer:
    """Zeller's minimising delta debugging of the set of changes under which nothing fails."""
    test = CleanStretchTest(world, setting, len(CHANGES))
    kept = list(CHANGES)
    if test.fails(frozenset(kept)):
        return frozenset()
    pieces = 2
    while len(kept) >= 2:
        size = math.ceil(len(kept) / pieces)
        parts = [kept[i : i + size] for i in range(0, len(kept), size)]
        for smaller, next_pieces in _reductions(kept, parts, pieces):
            if not test.fails(frozenset(smaller)):
                kept, pieces = smaller, next_pieces
                break
        else:
            if pieces >= len(kept):
                break
            pieces = min(2 * pieces, len(kept))
    return frozenset(kept)


def _reductions(
    kept: list[str], parts: list[list[str]], pieces: int
) -> Iterator[tuple[list[str], int]]:
    for part in parts:
        yield part, 2
    if pieces > 2:
        for part in parts:
            yield [change for change in kept if change not in part], max(pieces - 1, 2)


STRATEGIES: dict[str, Callable[[World, Setting], Answer]] = {
    "rerail": investigate,
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
        run_steps = -MEAN_STEPS * math.log1p(-setting.crash_probability)
        if setting.shape != 1.0:  # a run that wears out reaches its age
            run_steps = 3.0 * MEAN_STEPS
        world = World(draw_truth(setting.kind, rng), run_steps, rng, setting.shape, setting.spread)
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
    strategies = args.strategies or list(STRATEGIES)
    asked = ("single", "together", "none")  # the mix that the verdict's calibration is held to
    few = max(1, args.truths // 10)
    for strategy in strategies:
        # Random order finds no pair and never says "none" within the budget: 80 means for each.
        many = asked[:1] if strategy == "random" else asked
        for kinds, truths in ((many, args.truths), (asked[len(many) :], few)):
            settings = [
                Setting(strategy, kind, p, known, confidence)
                for kind in kinds
                for p in CRASH_PROBABILITIES
            ]
            if settings:
                yield f"{strategy}, flat priors", truths, settings
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
        "rerail, rate known well",
        args.truths,
        [
            Setting("rerail", "single", 0.5, RATE_KNOWN, confidence, with_diagnosis=diagnosed)
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


def planner_seconds(changes: int = 30, investigations: int = 5) -> list[float]:
    """How long each decision took, over whole investigations with so many changes."""
    took: list[float] = []
    for seed in range(investigations):
        rng = random.Random(seed)
        names = [f"change-{i:02}" for i in range(changes)]
        culprit = rng.choice(names)
        investigation = Investigation(names, failure_model=classify([900, 1100, 1000]))
        for _ in range(40):
            started = time.perf_counter()
            plan = investigation.next_trial()
            took.append(time.perf_counter() - started)
            if plan is None:
                break
            crash = math.inf if culprit in plan.changes else rng.expovariate(1 / MEAN_STEPS) + 1
            is_crash = crash <= plan.exposure_limit
            exposure = min(crash, plan.exposure_limit)
            outcome = "crashed" if is_crash else "survived"
            investigation.record(TrialResult.of(plan.changes, exposure, outcome))
    return took


def trial_seconds(trials: int = 12, sleep: float = 0.5) -> list[float]:
    """What a trial takes beyond its command: scheduling, recording, judging."""
    from rerail.investigation.judging import Judge
    from rerail.investigation.notebook import Notebook
    from rerail.investigation.observation import Plan
    from rerail.investigation.watching import UnderWay
    from rerail.scheduling import Task, open_scheduler

    took = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        command = ("sleep", str(sleep))
        judge = Judge(Notebook.open(home, command, folder, [], is_fresh=True))
        scheduler = open_scheduler("local", 1)
        for number in range(trials):
            started = time.perf_counter()
            task = Task(command, folder, str(home), dict(os.environ), f"trial {number}")
            plan = Plan((), math.inf, "")
            each = UnderWay(number, plan, [], {}, scheduler.start(task), time.monotonic())
            while not each.running.is_over():
                time.sleep(0.1)  # as often as an investigation looks
            assert judge.judge(each).outcome == "finished"
            took.append(time.perf_counter() - started - sleep)
    return took


def print_costs() -> None:
    decisions = planner_seconds()
    trials = trial_seconds()
    print(
        f"planner at 30 changes: median {1e3 * statistics.median(decisions):.0f} ms,"
        f" longest {1e3 * max(decisions):.0f} ms of {len(decisions)} decisions (bar: 200 ms)"
    )
    print(
        f"a trial beside its command: median {statistics.median(trials):.2f} s,"
        f" longest {max(trials):.2f} s of {len(trials)} (bar: 0.5 s)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--truths", type=int, default=1000, help="ground truths per line")
    parser.add_argument("--confidence", type=float, default=0.99)
    parser.add_argument(
        "--history", type=int, default=20, help="crashes on record before, free of charge"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first 25 truths of a line")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--strategies", nargs="*", choices=list(STRATEGIES))
    parser.add_argument("--costs", action="store_true", help="only planner and trial times")
    args = parser.parse_args()
    print_costs()
    if args.costs:
        return
    with Pool(args.processes) as pool:
        for title, truths, settings in tables(args):
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
    print(f"{'truth':22} {'p':>4} " + " ".join(f"{head:>{width}}" for head, width in heads))
    confirmed = wrong = 0
    for setting, tally in tallies.items():
        n = tally.total
        label = setting.kind
        label += ", diagnosed" * setting.with_diagnosis
        label += f", spread {setting.spread:g}" * (setting.spread > 0)
        label += f", shape {setting.shape:g}" * (setting.shape != 1.0)
        print(
            f"{label:22.22} {setting.crash_probability:4.1f} {tally.right / n:7.1%}"
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
