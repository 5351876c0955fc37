"""Making a slow failure come sooner: which way, whether it really does, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.changes.parse import parse_change
from rerail.changes.profile import Profile
from rerail.experiments.isolation.answer import answer_of
from rerail.experiments.isolation.hazard_knobs import changes_that_raise
from rerail.experiments.isolation.planner_setup import build_planner, least_exposure
from rerail.experiments.isolation.raise_hazard import Raising
from rerail.experiments.isolation.summary import summary_lines
from rerail.experiments.trials.exposure import Distance
from rerail.experiments.trials.journal import TrialJournal
from rerail.experiments.trials.trial import Trial

SEEN = Profile(is_recorded=True, has_boxes=True, loaders=(2,), uses_torch=True)


def ways(command: str, cause: str, phase: str | None = None, tries: tuple[str, ...] = ()):
    changes = [parse_change(text) for text in tries]
    return changes_that_raise({cause: 0.9}, phase, changes, SEEN, command.split(), {})


@pytest.mark.parametrize(
    ("command", "cause", "phase", "expected"),
    [
        ("train.py --mine-every 500", "native-segfault", "mining", ["--mine-every 50"]),
        ("train.py --mine-every=500", "native-segfault", "mining", ["--mine-every 50"]),
        ("train.py mining_interval=80", "native-segfault", "mining", ["mining_interval=8"]),
        ("train.py --save-every 100", "python-exception", "saving", ["--save-every 10"]),
        ("train.py --eval-interval 20", "host-oom", "validate", ["--eval-interval 2"]),
        ("train.py --num-workers 2", "fork-after-threads", None, None),
        ("train.py --save-every 100", "python-exception", "train", []),
        ("train.py --mine-every 1", "python-exception", "mining", []),
        ("train.py", "loss-not-finite", "forward", []),
    ],
)
def test_the_way_follows_from_cause_phase_and_command(command, cause, phase, expected):
    found = ways(command, cause, phase)
    if expected is None:  # rerail's own change and the command's argument
        assert found == ["dataloader-workers=4", "--num-workers 8"]
    else:
        assert found == expected


def test_threads_for_a_conflict_of_runtimes():
    (threads,) = {text.partition("=")[0] for text in ways("train.py", "openmp-duplicate-runtime")}
    assert threads == "torch-threads"  # no OpenMP runtime is in this profile


def test_a_script_behind_a_shell_is_read_too():
    command = ["sh", "-c", "python train.py --mine-every 300; true"]
    found = changes_that_raise({"native-segfault": 1.0}, "mining", [], SEEN, command, {})
    assert found == ["--mine-every 30"]


def test_what_is_under_investigation_itself_is_not_raised():
    assert ways("t.py --workers 2", "worker-crashed", None, ("--workers 0",)) == []
    assert ways("t.py --mine-every 500", "host-oom", "mining", ("--mine-every 1000",)) == []
    assert ways("t.py --mine-every 500", "host-oom", "mining", ("--miner none",)) != []


def a_trial(outcome: str, steps: int, raised: tuple[str, ...] = (), changes=(), cause=None):
    return Trial(
        tuple(changes), outcome, Distance(steps, 0, float(steps)), cause=cause, raised=raised
    )


@pytest.fixture
def journal(tmp_path: Path) -> TrialJournal:
    made = TrialJournal.open(
        tmp_path, ["python", "t.py", "--mine-every", "500"], "/", ["--lr 1"], is_fresh=True
    )
    made.changes, made.unit, made.phase = ["--lr 1"], "steps", "mining"
    made.causes = {"native-segfault": 0.9}
    made.trials.append(a_trial("crashed", 1000))
    return made


def considered(journal: TrialJournal, is_wanted: bool | None = True, budget: float = 1e9):
    said: list[str] = []
    raising = Raising(journal, is_wanted, budget, said.append)
    raising.consider({})
    return raising, said


RAISED = ("--mine-every 50",)


def note(raising: Raising, trial: Trial) -> bool:
    raising.journal.trials.append(trial)
    return raising.take_note(trial)


def test_it_is_kept_once_the_rate_is_surely_higher(journal: TrialJournal) -> None:
    raising, _ = considered(journal)
    plan = raising.next_plan([])
    assert plan is not None and plan.changes == () and plan.exposure_limit <= 1001
    assert raising.for_trials == RAISED and journal.raised == ()
    assert not note(raising, a_trial("crashed", 90, RAISED))
    assert note(raising, a_trial("crashed", 110, RAISED))
    assert raising.next_plan([]) is None
    assert journal.raised == RAISED
    answer = raising.answer()
    assert answer is not None and answer["adopted"] and answer["ratio"] > 5


def test_from_then_on_only_raised_trials_are_compared(journal: TrialJournal) -> None:
    raising, _ = considered(journal)
    journal.earlier_crashes = [4000.0]
    note(raising, a_trial("crashed", 90, RAISED))
    note(raising, a_trial("crashed", 110, RAISED))
    planner = build_planner(journal, 0.99, load_catalogue())
    assert planner is not None
    assert [trial.exposure for trial in planner.trials] == [91.0, 111.0]
    assert planner.failure_model.lifetimes.crash_times == ()
    assert least_exposure(journal) < 100
    # Taken up again, nothing of it is forgotten.
    journal.save()
    again = TrialJournal.open(
        journal.path.parent.parent, journal.command, "/", ["--lr 1"], is_fresh=False
    )
    assert again.raised == RAISED and again.comparable_trials() == journal.comparable_trials()


@pytest.mark.parametrize(
    ("trials", "why"),
    [
        ([a_trial("finished", 600, RAISED), a_trial("stopped", 500, RAISED)], "measurably"),
        ([a_trial("other", 20, RAISED, cause="bad-config")], "dies of bad-config"),
        ([a_trial("crashed", 20, ())], "did not take effect"),
        ([a_trial("crashed", 480, RAISED), a_trial("crashed", 520, RAISED)], "measurably"),
    ],
)
def test_else_it_is_dropped_and_the_reason_kept(journal: TrialJournal, trials, why: str) -> None:
    raising, said = considered(journal)
    for trial in trials:
        assert not note(raising, trial)
    assert raising.for_trials == () and journal.raised == ()
    assert why in said[-1]
    answer = raising.answer()
    assert answer is not None and not answer["adopted"] and why in answer["why_not"]


def test_without_being_asked_only_a_slow_failure_is_raised(journal: TrialJournal) -> None:
    assert considered(journal, None, budget=20_000.0)[0].now is None
    assert considered(journal, False, budget=100.0)[0].now is None
    assert considered(journal, None, budget=5_000.0)[0].for_trials == RAISED


def test_an_investigation_under_way_is_not_changed(journal: TrialJournal) -> None:
    journal.trials.append(a_trial("crashed", 400, changes=["--lr 1"]))
    assert considered(journal)[0].now is None


def test_asked_for_and_not_possible_is_said(journal: TrialJournal) -> None:
    journal.phase, journal.causes = "train", {"python-exception": 1.0}
    _, said = considered(journal)
    assert "nothing is known" in said[-1]


def test_the_answer_says_for_which_setting_it_is(journal: TrialJournal) -> None:
    raising, _ = considered(journal)
    note(raising, a_trial("crashed", 90, RAISED))
    note(raising, a_trial("crashed", 110, RAISED))
    document = answer_of(journal, None, "", raising.answer())
    document |= {"status": "confirmed", "changes": ["--lr 1"]}
    text = "\n".join(summary_lines(document))
    assert "--mine-every 50" in text and "the answer is for that setting" in text
    assert "rerail verify --with '--lr 1'" in text
    assert document["trials"][-1]["raised"] == list(RAISED)
