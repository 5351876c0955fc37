"""Trials are started, watched and stopped in one way, whoever asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rerail.changes import Profile
from rerail.experiments.edits.versions import ProgramVersions
from rerail.experiments.trials.exposure import Distance, measure
from rerail.experiments.trials.failure import Diagnostician
from rerail.experiments.trials.judge import judge_ended
from rerail.experiments.trials.outcome import Wanted
from rerail.experiments.trials.trial_driver import TrialDriver, UnderWay
from rerail.experiments.trials.trial_setup import TrialOptions, TrialSetup
from rerail.scheduling import Task, open_scheduler
from rerail.store import RunFolder, Store

LONG = ("sleep", "600")


class Bench:
    """One command that can be tried."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.left = 1e9
        self.said: list[str] = []
        self.driver = TrialDriver[UnderWay](
            open_scheduler("local", min(2, len(os.sched_getaffinity(0)))),
            lambda: self.left,
            self.said.append,
        )
        self.setup = TrialSetup.of_experiment(
            command,
            str(folder),
            dict(os.environ),
            Store(folder / "home"),
            "key",
            TrialOptions(may_write=True),
            self.said.append,
            lambda: self.left,
            ProgramVersions(str(folder)),
        )

    def ready(self) -> tuple[UnderWay, Task]:
        each = UnderWay(self.setup.ready((), Profile()))
        return each, each.ready.task(f"bench {id(each)}", None, {})

    def run(self, is_enough: Callable[[UnderWay, Distance], bool]) -> UnderWay:
        each, task = self.ready()
        return self.driver.run(each, task, how_far, is_enough)

    def outcome(self, each: UnderWay) -> str:
        tried = judge_ended(each, Wanted(), Diagnostician())
        each.leave()
        return tried.trial.outcome


def how_far(folder: RunFolder, seconds: float) -> Distance:
    return measure(folder, seconds)


def never(each: UnderWay, distance: Distance) -> bool:
    return False


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*command: str) -> Bench:
        made.append(Bench(tmp_path, command))
        return made[-1]

    yield make
    for each in made:
        each.driver.scheduler.close()
        each.setup.close()


def test_a_trial_that_ends_by_itself_is_not_stopped(bench: Callable[..., Bench]) -> None:
    found = bench("true")
    each = found.run(never)
    assert (each.stopped, each.stopped_ns, found.driver.under_way) == ("", None, [])
    assert found.outcome(each) == "finished"


def test_it_is_stopped_once_it_has_said_enough(bench: Callable[..., Bench]) -> None:
    found = bench(*LONG)
    each = found.run(lambda _, distance: distance.seconds > 0.0)
    assert each.stopped == "enough" and each.running.is_over()
    assert found.outcome(each) == "stopped"


def test_it_is_stopped_at_the_end_of_the_budget(bench: Callable[..., Bench]) -> None:
    found = bench(*LONG)

    def look(each: UnderWay, distance: Distance) -> bool:
        found.left = 0.0
        return False

    each = found.run(look)
    assert each.stopped == "budget" and found.outcome(each) == "stopped"


def test_ctrl_c_stops_it_and_gives_it_back(bench: Callable[..., Bench]) -> None:
    found = bench(*LONG)

    def press(each: UnderWay, distance: Distance) -> bool:
        raise KeyboardInterrupt

    each = found.run(press)
    assert each.stopped == "interrupted" and found.driver.under_way == []
    assert each.running.is_over() and found.outcome(each) == "stopped"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_ctrl_c_stops_all_of_several(bench: Callable[..., Bench]) -> None:
    found = bench(*LONG)
    for _ in range(2):
        found.driver.start(*found.ready())
    assert list(found.driver.ended(how_far, never)) == []
    stopped = list(found.driver.stop_all())
    assert [each.stopped for each in stopped] == ["interrupted"] * 2
    assert found.driver.under_way == [] and all(each.running.is_over() for each in stopped)
    for each in stopped:
        each.leave()


def test_a_trial_that_cannot_be_started_is_left(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = bench(*LONG)
    each, task = found.ready()

    def refuse(task: Task) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(found.driver.scheduler, "start", refuse)
    with pytest.raises(OSError, match="no more processes"):
        found.driver.run(each, task, how_far, never)
    assert found.driver.under_way == []
    assert not each.ready.layers or not Path(each.ready.layers).exists()
