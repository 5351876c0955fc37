"""Which runs are removed to keep a store within its limit, and which never are."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.records import Outcome
from rerail.store import RunWriter, Store
from rerail.store.retention import (
    TRIAL_SECONDS,
    UNEXPLAINED_KEPT,
    Candidate,
    removal_order,
)

NOW = 1e6


@pytest.mark.parametrize("seed", range(200))
def test_the_order_of_removal_over_random_runs(seed: int) -> None:
    draw = random.Random(seed)

    def candidate(at: int) -> Candidate:
        is_success, is_explained = draw.random() < 0.5, draw.random() < 0.3
        age = draw.uniform(0, 4) * TRIAL_SECONDS
        key = draw.choice([None, None, None, "a", "b"])
        return Candidate(str(at), NOW - age, is_success, is_explained, draw.random() < 0.1, key)

    runs = {str(at): candidate(at) for at in range(draw.randrange(120))}
    last = draw.choice([None, *runs])
    order = removal_order(runs.values(), last, NOW)
    assert len(set(order)) == len(order)
    kept = [runs[name] for name in runs if name not in order]
    active = {
        run.trial_of
        for run in runs.values()
        if run.trial_of and (run.is_in_use or run.ended_unix > NOW - TRIAL_SECONDS)
    }
    for run in runs.values():
        if run.is_in_use or run.id == last or run.trial_of in active:
            assert run in kept
    failures = [run for run in runs.values() if not run.is_success and not run.is_in_use]
    for other in failures:
        newer = [run for run in failures if run.ended_unix > other.ended_unix]
        unexplained = [run for run in newer if not run.is_explained and run.trial_of is None]
        is_unexplained = not other.is_explained and other.trial_of is None
        if not newer or (is_unexplained and len(unexplained) < UNEXPLAINED_KEPT):
            assert other in kept
    bound = sum(run.is_in_use or run.trial_of in active for run in runs.values())
    assert len(kept) <= bound + UNEXPLAINED_KEPT + 2  # whatever nobody has explained
    for before, after in itertools.pairwise(order):
        first, second = runs[before], runs[after]
        assert first.is_success >= second.is_success
        if first.is_success == second.is_success:
            assert first.ended_unix <= second.ended_unix


def test_a_diagnosis_that_nobody_saw_explains_nothing(
    store: Store, new_run: Callable[..., RunWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rerail run --quiet` writes one; and unexplained failures beyond a number go all the same."""
    monkeypatch.setattr("rerail.store.retention.UNEXPLAINED_KEPT", 1)
    ids = []
    for seconds in (10.0, 20.0, 30.0):
        writer = new_run()
        writer.update_info(recorder_pid=2**22 + 1, settings={"is_quiet": True})
        writer.finish(Outcome("signal", "signal"), seconds)
        writer.write_json("diagnosis.json", {})
        ids.append(writer.id)
    new_run()  # `last`
    assert store.clean(0) == ids[:2]


def test_a_death_stays_until_it_is_explained(
    store: Store, new_run: Callable[..., RunWriter]
) -> None:
    def record(kind: str, seconds: float) -> RunWriter:
        writer = new_run()
        writer.update_info(recorder_pid=2**22 + 1)  # nobody has this pid
        writer.finish(Outcome(kind, kind), seconds)  # type: ignore[arg-type]
        return writer

    death, success = record("signal", 9000.0), record("ok", 1.0)
    own = new_run()
    own.finish(Outcome("ok", "well"), 1.0)  # this process recorded it and has not ended
    new_run()  # `last`
    assert store.clean(0) == [success.id]
    death.write_json("diagnosis.json", {})
    assert store.clean(0) == []  # the failure that ended last
    record("signal", 9001.0)
    assert store.clean(0) == [death.id]
    assert own.id in store.ids()


def test_rerail_run_under_a_tiny_limit_keeps_the_death(tmp_path: Path) -> None:
    home = tmp_path / "a störe"
    environ = {**os.environ, "RERAIL_STORE_LIMIT": "1"}

    def run(status: int) -> None:
        code = f"raise SystemExit({status})"
        words = ["-m", "rerail", "run", "--home", str(home), "--", sys.executable, "-c", code]
        done = subprocess.run(
            [sys.executable, *words], env=environ, check=False, timeout=240, capture_output=True
        )
        assert done.returncode == status, done.stderr

    for status in (3, 0, 0):
        run(status)
    statuses = [info.outcome.exit_code for info in Store(home).list() if info.outcome]
    assert 3 in statuses


def test_folders_of_the_user_among_the_runs_are_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unpacked archive may have `.rerail/runs` as a link to any folder."""
    monkeypatch.setenv("RERAIL_STORE_LIMIT", "1")
    results = tmp_path / "results"
    for name in ("data", "20261119", ".removed-by-me", "20261119-214320-6374.old"):
        (results / name).mkdir(parents=True)
        (results / name / "weights.pt").write_bytes(bytes(4096))
        os.utime(results / name, (0, 0))
    (results / "data" / "run.json").write_text("{}")
    home = tmp_path / "home"
    home.mkdir()
    (home / "runs").symlink_to(results)
    store = Store(home)
    for _ in range(2):
        store.create_run(["true"], tmp_path, {}, False)
    store.clean(0)
    assert len(list(results.rglob("weights.pt"))) == 4
