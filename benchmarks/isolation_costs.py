"""How long does a decision of the planner take, and what does a trial cost beside its command?"""

from __future__ import annotations

import math
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.isolation_truths import MEAN_STEPS
from rerail.experiments.planner.inquiry import Investigation
from rerail.experiments.planner.observation import TrialResult
from rerail.survival import classify


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
    """What a trial takes beyond its command: setting up, scheduling, recording, judging."""
    from rerail.experiments.edits.versions import ProgramVersions
    from rerail.experiments.isolation.options import IsolateOptions
    from rerail.experiments.trials.journal import TrialJournal
    from rerail.experiments.trials.judge import Judge
    from rerail.experiments.trials.trial_driver import TrialDriver, UnderWay
    from rerail.experiments.trials.trial_setup import TrialSetup
    from rerail.scheduling import open_scheduler
    from rerail.store import Store

    took = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        command = ("sleep", str(sleep))
        journal = TrialJournal.open(home, command, folder, [], is_fresh=True)
        judge = Judge(journal)
        program, options = ProgramVersions(folder), IsolateOptions(may_write=True)
        setup = TrialSetup.of_experiment(
            command,
            folder,
            dict(os.environ),
            Store(home),
            "cost",
            options,
            print,
            lambda: math.inf,
            program,
        )
        driver = TrialDriver[UnderWay](open_scheduler("local", 1), lambda: math.inf, print)
        for number in range(trials):
            started = time.perf_counter()
            each = UnderWay(setup.ready((), journal.profile))
            task = each.ready.task(f"trial {number}", None, {})
            driver.run(each, task, judge.how_far, lambda _, distance: False)
            assert judge.judge(each).outcome == "finished"
            each.leave()
            took.append(time.perf_counter() - started - sleep)
        setup.close()
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
