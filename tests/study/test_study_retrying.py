"""A cell is tried again only where that can help, and then with a safe remedy."""

from __future__ import annotations

from rerail.catalogue import load_catalogue
from rerail.changes.profile import Profile
from rerail.diagnosis.result import Candidate
from rerail.experiments.trials.failure import Failure
from rerail.records import Observation
from rerail.remedies import Death
from rerail.study.retrying import Decision, Ended, Setting, begun, decide

CATALOGUE = load_catalogue()
LOADER = Profile(is_recorded=True, has_boxes=True, loaders=(4,), uses_torch=True)


def ended(
    cause: str | None,
    probability: float = 0.95,
    *,
    kind: str = "signal",
    signal: str | None = "SIGSEGV",
    is_recorded: bool = False,
    in_worker: bool = False,
    step: int | None = None,
) -> Ended:
    kernel = (Observation("oom-kill", "The kernel killed it.", "kernel:1"),) if is_recorded else ()
    found = (Candidate(CATALOGUE[cause], probability, kernel),) if cause else ()
    failure = Failure(cause, kind, signal, None, None, "it died", "run")
    death = Death("run", failure, {}, found, counted_steps=step)
    return Ended(death, in_worker=in_worker)


def decision(
    what: Ended,
    tried: int = 0,
    changes: tuple[str, ...] = (),
    *,
    resumes: bool = False,
    earlier: tuple[Ended, ...] = (),
    **limits: int,
) -> Decision:
    setting = Setting(changes, ["python", "t.py"], {}, LOADER, resumes=resumes)
    worker = Candidate(CATALOGUE["worker-crashed"], 1.0)
    before = [begun(n, each.death, "") for n, each in enumerate(earlier, 1) if each.death]
    return decide(what, tried, limits, setting, worker, before)


def test_a_crash_by_chance_is_first_tried_as_it_was() -> None:
    found = decision(ended("native-segfault"))
    assert found.retries and found.changes == ()


def test_a_worker_that_crashes_again_is_done_without() -> None:
    found = decision(ended("native-segfault", in_worker=True), tried=1)
    assert found.retries and found.changes == ("dataloader-workers=0",)
    assert "see-the-error" in found.why or "no-workers" in found.why


def test_shared_memory_needs_its_remedy_and_says_it() -> None:
    found = decision(ended("shm-exhausted"))
    assert found.changes == ("dataloader-workers=0",) and "no-workers" in found.why


def test_the_same_remedy_is_not_applied_twice() -> None:
    found = decision(ended("shm-exhausted"), tried=1, changes=("dataloader-workers=0",))
    assert not found.retries


def test_a_kill_for_memory_needs_a_remedy_but_a_bare_sigkill_does_not() -> None:
    killed = ended("host-oom", signal="SIGKILL", is_recorded=True)
    assert decision(killed).changes == ("dataloader-workers=0",)
    bare = ended("host-oom", 0.52, signal="SIGKILL")
    for tried in (0, 1):
        assert decision(bare, tried=tried).retries and decision(bare, tried=tried).changes == ()


def test_a_recorded_crash_of_a_worker_is_tried_again_whatever_the_text_says() -> None:
    unsure = ended("bad-config", 0.36, kind="exit", signal=None, in_worker=True)
    assert decision(unsure).retries and "worker" in decision(unsure).why


def test_a_cause_that_is_not_sure_is_tried_until_it_comes_back_at_one_place() -> None:
    """As `run --restarts` does it: to give up, a cause must be surer than to apply a remedy."""
    for unsure in (
        ended("shape-mismatch", 0.6, kind="exit", signal=None, step=40),
        ended(None, kind="exit", signal=None, step=40),
    ):
        assert decision(unsure).retries
        again = decision(unsure, tried=1, earlier=(unsure,))
        assert not again.retries and "same place" in again.why


def test_a_crash_that_comes_back_at_one_step_is_left() -> None:
    crash = ended("nccl-network-failed", kind="exit", signal=None, step=40)
    applied = decision(crash, tried=1, earlier=(crash,)).changes
    assert applied, "a remedy makes another attempt worthwhile"
    again = decision(crash, tried=1, changes=applied, earlier=(crash,))
    assert not again.retries and "same place" in again.why
    elsewhere = ended("nccl-network-failed", kind="exit", signal=None, step=90)
    assert decision(crash, tried=1, changes=applied, earlier=(elsewhere,)).retries
    killed = ended("killed-from-outside", signal="SIGKILL", step=40)
    assert decision(killed, tried=1, earlier=(killed,)).retries


def test_who_was_told_to_end_goes_on_and_a_lost_record_is_made_again() -> None:
    told = Ended(told_by="SIGTERM")
    assert decision(told).retries and "SIGTERM came from outside" in decision(told).why
    assert decision(Ended(is_lost=True)).retries


def test_files_that_are_missing_without_a_cause_are_not_waited_for() -> None:
    assert not decision(ended(None, kind="ok", signal=None)).retries
    assert not decision(ended("native-segfault", 0.3, kind="ok", signal=None)).retries
    assert decision(ended("native-segfault", kind="ok", signal=None)).retries


def test_what_would_fail_the_same_way_is_left() -> None:
    for cause in ("shape-mismatch", "file-missing", "bad-config", "python-exception"):
        found = decision(ended(cause, kind="exit", signal=None))
        assert not found.retries, cause


def test_limits_per_cause() -> None:
    crash = ended("native-segfault")
    assert not decision(crash, tried=2).retries
    assert decision(crash, tried=2, default=3).retries
    assert decision(crash, tried=2, **{"native-segfault": 3}).retries
    assert decision(crash, default=0).why == "retries are off"


def test_examples_in_the_catalogue_are_not_taken_for_remedies() -> None:
    """A path or the name of an interface stands there for a person."""
    found = decision(ended("nccl-network-failed", kind="exit", signal=None), tried=1)
    assert not any("eth0" in change for change in found.changes)


def test_what_a_checkpoint_may_get_past_is_tried_again_from_one_only() -> None:
    for cause in ("gpu-oom", "host-memory-leak", "loss-not-finite", "python-exception"):
        dead = ended(cause, kind="exit", signal=None)
        assert not decision(dead).retries, cause
        assert decision(dead, resumes=True).retries, cause
    for cause in ("disk-full", "data-corrupt", "shape-mismatch"):
        dead = ended(cause, kind="exit", signal=None)
        assert not decision(dead, resumes=True).retries, cause


def test_memory_is_first_answered_by_its_remedy_and_then_by_its_checkpoint() -> None:
    killed = ended("host-oom", signal="SIGKILL", is_recorded=True)
    assert decision(killed, resumes=True).changes == ("dataloader-workers=0",)
    again = decision(killed, tried=1, changes=("dataloader-workers=0",), resumes=True)
    assert again.retries and "from its checkpoint" in again.why


def test_doing_without_workers_is_no_remedy_for_what_is_certain() -> None:
    assert not decision(ended("shape-mismatch", in_worker=True), tried=1).retries
