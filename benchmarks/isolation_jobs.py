"""How much sooner is the answer there with several trials at once, and is it as often right?

    python -m benchmarks.isolation_jobs --jobs 8 --truths 100

The imaginary commands of `benchmarks.isolation`, on one slot and on several. What counts is the
time on the clock until the answer, in mean times to failure, with the time that every start takes.
As in a real investigation, trials under way are looked at every so often, and stopped together once
what they came through so far decides. With `--slowdown` a trial is so much slower where there are
several slots; exposure is in the program's own steps, so that costs time and nothing else.
"""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass, replace
from multiprocessing import Pool

from benchmarks.isolation_truths import CHANGES, MEAN_STEPS, Answer, Setting, World, draw_truth
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import Plan, TrialResult
from rerail.survival import classify

LOOK_STEPS = 0.03 * MEAN_STEPS
MOST_MEANS = 200.0


@dataclass
class _Slot:
    plan: Plan
    begins: float  # on the clock, once it has started
    ends: float
    crashes: bool
    length: float  # in its own steps

    def done(self, now: float, slowdown: float) -> float:
        return max(0.0, now - self.begins) / slowdown


def investigate_at_once(world: World, setting: Setting, slowdown: float = 1.0) -> Answer:
    """Until it is decided; the world keeps the account."""
    crashed, clean = world.history(setting.history)
    start = setting.start_means * MEAN_STEPS
    slowdown = slowdown if setting.jobs > 1 else 1.0
    investigation = Investigation(
        world.rng.sample(CHANGES, len(CHANGES)),
        None,
        setting.confidence,
        classify(crashed, clean),
        run_length=world.run_steps,
        overhead=start,
    )
    now, slots = 0.0, list[_Slot]()

    def under_way() -> list[Plan]:
        return [replace(each.plan, done=each.done(now, slowdown)) for each in slots]

    while now < MOST_MEANS * MEAN_STEPS:
        while len(slots) < setting.jobs:
            plan = investigation.next_trial(running=under_way())
            if plan is None:
                break
            crash, end = world.draw(frozenset(plan.changes), plan.exposure_limit)
            length = max(1.0, min(crash, end))
            begins = now + start * slowdown
            slots.append(_Slot(plan, begins, begins + length * slowdown, crash <= end, length))
        if not slots:
            break
        now = min(*(each.ends for each in slots), now + LOOK_STEPS)
        for each in [each for each in slots if each.ends <= now]:
            slots.remove(each)
            _record(investigation, world, each.plan, each.length, each.crashes)
        running = under_way()
        if running and investigation.should_stop(running[0].done, running[0], running[1:]):
            for plan in running:
                _record(investigation, world, plan, plan.done, False)
            slots.clear()
    world.elapsed_steps = now
    verdict = investigation.verdict()
    if verdict.status == "confirmed":
        return frozenset(verdict.changes)
    return frozenset() if verdict.status == "none-of-these" else None


def _record(
    investigation: Investigation, world: World, plan: Plan, length: float, crashed: bool
) -> None:
    world.used_steps += length
    outcome = "crashed" if crashed else "survived"
    investigation.record(TrialResult.of(plan.changes, length, outcome))


@dataclass
class Result:
    setting: Setting
    elapsed_means: float
    used_means: float
    runs: int
    is_right: bool
    is_confirmed: bool


def measure(job: tuple[Setting, int, float]) -> Result:
    setting, seed, slowdown = job
    rng = random.Random(f"{setting.kind} {setting.crash_probability} at once {seed}")
    run_steps = -MEAN_STEPS * math.log1p(-setting.crash_probability)
    world = World(draw_truth(setting.kind, rng), run_steps, rng)
    answer = investigate_at_once(world, setting, slowdown)
    is_right = answer in world.truth.answers or (answer == frozenset() and not world.truth.answers)
    means = world.elapsed_steps / MEAN_STEPS, world.used_steps / MEAN_STEPS
    return Result(setting, *means, world.runs, is_right, bool(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 8], help="slots")
    parser.add_argument("--truths", type=int, default=100, help="ground truths per line")
    parser.add_argument("--history", type=int, default=100, help="crashes on record")
    parser.add_argument("--start", type=float, default=0.02, help="of a run, in mean times")
    parser.add_argument("--slowdown", type=float, default=1.0, help="of trials beside others")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    print(f"{'truth':10} {'p':>4} {'jobs':>5} {'right':>7} {'time':>6} {'+-':>5} {'used':>6} runs")
    confirmed, wrong = dict.fromkeys(args.jobs, 0), dict.fromkeys(args.jobs, 0)
    with Pool(args.processes) as pool:
        for kind in ("single", "together", "none"):
            for p in (0.5, 0.1):
                alone = math.nan
                for jobs in args.jobs:
                    setting = Setting(
                        "rerail", kind, p, args.history, 0.99, jobs=jobs, start_means=args.start
                    )
                    work = [(setting, args.seed + n, args.slowdown) for n in range(args.truths)]
                    results = list(pool.imap_unordered(measure, work))
                    mean = _print_line(setting, results)
                    alone = mean if jobs == 1 else alone
                    if jobs > 1 and not math.isnan(alone):
                        print(f"    {alone / mean:.1f} times sooner", flush=True)
                    sure = [each for each in results if each.is_confirmed]
                    confirmed[jobs] += len(sure)
                    wrong[jobs] += sum(not each.is_right for each in sure)
    for jobs in args.jobs:
        print(f"wrong among confirmed, jobs {jobs}: {wrong[jobs]} of {confirmed[jobs]}")


def _print_line(setting: Setting, results: list[Result]) -> float:
    count = len(results)
    mean = math.fsum(each.elapsed_means for each in results) / count
    spread = math.fsum((each.elapsed_means - mean) ** 2 for each in results) / count
    print(
        f"{setting.kind:10} {setting.crash_probability:4.1f} {setting.jobs:5}"
        f" {sum(each.is_right for each in results) / count:7.1%} {mean:6.2f}"
        f" {math.sqrt(spread / count):5.2f}"
        f" {math.fsum(each.used_means for each in results) / count:6.2f}"
        f" {sum(each.runs for each in results) / count:.1f}",
        flush=True,
    )
    return mean


if __name__ == "__main__":
    main()
