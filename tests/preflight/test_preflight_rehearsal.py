"""Dry runs of a real training: it stops where it should and leaves the user's files alone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from preflight_processes import is_alive

from rerail.errors import RerailError
from rerail.preflight.checking import check
from rerail.preflight.memory.components import batch_size, split
from rerail.preflight.memory.plan import plan_of
from rerail.preflight.memory.prediction import kept_by_later_workers, predict
from rerail.preflight.memory.rehearsal import Rehearsal, rehearse
from rerail.preflight.memory.what_if import what_if

PROGRAM = Path(__file__).parent.parent / "programs" / "preflight_train.py"
pytestmark = pytest.mark.torch
pytest.importorskip("torch")
MIB = 1 << 20
SHORT_EPOCHS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(24, 8)), 4, num_workers=1)
for epoch in range(4):
    for (x,) in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
"""
ONE_PASS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    with open(__file__):
        net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for (x,) in DataLoader(TensorDataset(torch.randn(80, 8)), 4, num_workers=2):
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()

main()
"""


def train(tmp_path: Path, *words: str, steps: int = 3) -> Rehearsal:
    command = [sys.executable, str(PROGRAM), *words]
    return rehearse(command, tmp_path, dict(os.environ), steps=steps, most_seconds=300)


@pytest.mark.thorough
def test_it_stops_after_the_steps_and_leaves_no_trace(tmp_path: Path) -> None:
    log, saved = tmp_path / "train.log", tmp_path / "best.pt"
    log.write_text("yesterday's\n")
    saved.write_bytes(b"yesterday's checkpoint")
    for path in (log, saved):
        os.utime(path, (1.0e9, 1.0e9))
    found = train(
        *(tmp_path, "--log", str(log), "--save", str(saved), "--out", str(tmp_path / "run" / "a"))
    )
    assert (found.ending, found.steps) == ("steps", 3)
    assert log.read_text() == "yesterday's\n"
    assert saved.read_bytes() == b"yesterday's checkpoint"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.pt", "train.log"]
    assert {str(log), str(saved)} == {p for report in found.reports for p in report.moved}
    assert not any(is_alive(record.pid) for record in found.records)
    prediction = predict(found)
    assert prediction.low_bytes <= prediction.peak_bytes <= prediction.high_bytes
    assert prediction.peak_bytes >= max(report.peak() for report in found.reports)
    components = split(found, prediction)
    assert sum(component.size_bytes for component in components) == prediction.peak_bytes
    sizes = {component.name: component.size_bytes for component in components}
    assert sizes["parameters"] == sizes["gradients"] == 4 * (33 * 64 + 65)
    assert batch_size(found) == 8


@pytest.mark.slow
def test_it_ends_before_a_file_of_the_users_would_be_removed(tmp_path: Path) -> None:
    old = tmp_path / "old.pt"
    old.write_bytes(b"precious")
    os.utime(old, (1.0e9, 1.0e9))
    found = train(tmp_path, "--removes", str(old), steps=5)
    assert found.ending == "write" and "old.pt" in found.reports[0].detail
    assert old.read_bytes() == b"precious"
    assert found.steps == 2


@pytest.fixture(scope="module")
def with_workers(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    return train(tmp_path_factory.mktemp("workers"), "--workers", "2")


@pytest.mark.thorough
def test_loader_workers_are_counted_once_and_are_gone_afterwards(with_workers: Rehearsal) -> None:
    found = with_workers
    assert found.ending == "steps" and len(found.still.processes) == 3
    prediction = predict(found)
    assert prediction.peak_bytes < sum(process.rss_bytes for process in found.still.processes)
    names = {component.name for component in split(found, prediction)}
    assert "loader workers" in names
    assert not any(is_alive(record.pid) for record in found.records)


@pytest.mark.thorough
def test_workers_of_the_second_epoch_are_measured_in_the_first(with_workers: Rehearsal) -> None:
    (report,) = with_workers.reports
    assert len(with_workers.still.processes) == 3
    assert report.workers_begun_step == 1
    assert report.first_workers_bytes and kept_by_later_workers(with_workers) == 0
    assert report.steps == 3


@pytest.mark.thorough
def test_a_loader_that_is_gone_through_once_has_no_second_epoch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ONE_PASS)
    command = [sys.executable, str(script)]
    found = rehearse(command, tmp_path, dict(os.environ), steps=4, most_seconds=300)
    (report,) = found.reports
    assert found.ending == "steps" and len(found.still.processes) == 3
    assert not report.loop_comes_again
    assert report.workers_begun_step == 0 and report.first_workers_bytes is None
    assert kept_by_later_workers(found) == 0


@pytest.mark.thorough
def test_a_program_that_gets_to_its_second_epoch_is_given_the_workers_begun_early(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SHORT_EPOCHS)
    command = [sys.executable, str(script)]
    found = rehearse(command, tmp_path, dict(os.environ), steps=7, most_seconds=300)
    assert found.ending == "steps" and found.steps == 7
    (report,) = found.reports
    # Epochs of six steps: begun early after the fifth, taken over after the sixth.
    assert report.first_workers_bytes is None
    assert report.workers_begun_step == 5
    assert len(found.still.processes) == 2


@pytest.mark.thorough
def test_a_program_that_fails_is_answered_with_its_diagnosis(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--fails-at", "1"]
    found = check(command, tmp_path, dict(os.environ), steps=3, most_seconds=300)
    assert found.is_fatal and found.plan is None
    (finding,) = [f for f in found.findings if f.level == "fatal"]
    assert finding.id == "file-missing" and "shard-0007.npz" in finding.why
    assert found.to_json()["memory"] is None


def test_a_command_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(RerailError, match="nowhere"):
        rehearse(["nowhere"], tmp_path, dict(os.environ))


def test_a_program_that_does_no_steps_is_measured_to_its_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; x = b'1' * (80 << 20); time.sleep(0.5)"]
    found = rehearse(command, tmp_path, dict(os.environ), most_seconds=300)
    assert found.ending == "finished" and predict(found).peak_bytes > 80 * MIB
    plan = plan_of(found, {"memory": {"available_bytes": 1 << 34, "total_bytes": 1 << 34}})
    assert plan.fits and plan.findings()[0].level == "fine"


def test_what_does_not_fit_is_fatal_and_says_what_to_change(with_workers: Rehearsal) -> None:
    found = with_workers
    small = {"memory": {"available_bytes": 64 * MIB, "total_bytes": 1 << 30}}
    plan = plan_of(found, small)
    (finding,) = plan.findings()
    assert finding.level == "fatal" and finding.id == "host-oom"
    assert any("workers" in action for action in finding.do)
    document = plan.to_json()
    assert document["fits"] is False and document["batch_size"] == 8


@pytest.mark.slow
def test_a_value_that_the_program_does_not_take_costs_only_its_own_answer(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM)]
    environ = dict(os.environ)
    found = check(command, tmp_path, environ, steps=2, what_ifs=["--no-such-option 3"])
    assert found.plan is not None and found.what_ifs == [] and not found.is_fatal
    (finding,) = [f for f in found.findings if "--no-such-option 3" in f.title]
    assert finding.level == "risky" and "the dry run failed" in finding.why


def test_more_workers_are_reckoned_from_those_that_were_seen(
    tmp_path: Path, with_workers: Rehearsal
) -> None:
    command = [sys.executable, str(PROGRAM), "--workers", "2"]
    plan = plan_of(with_workers, {"memory": {"available_bytes": 1 << 34, "total_bytes": 1 << 34}})
    found = what_if("--workers 6", command, tmp_path, dict(os.environ), plan)
    each = (found.peak_bytes - plan.peak_bytes) / 4
    assert not found.is_measured and found.points == ((2.0, plan.peak_bytes),)
    assert 0 < each < 64 * MIB and found.low_bytes < found.peak_bytes < found.high_bytes
    assert found.largest_that_fits is not None and found.largest_that_fits > 6


@pytest.mark.slow
def test_what_if_extrapolates_a_larger_number(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--batch-size", "512", "--width", "2048"]
    environ = dict(os.environ)
    plan = plan_of(rehearse(command, tmp_path, environ, steps=3, most_seconds=300), {})
    more = what_if("--batch-size 2048", command, tmp_path, environ, plan, steps=3)
    assert not more.is_measured and [x for x, _ in more.points] == [128, 256, 512]
    assert more.low_bytes <= more.peak_bytes <= more.high_bytes
    less = what_if("--batch-size 64", command, tmp_path, environ, plan, steps=3)
    assert less.is_measured and less.peak_bytes < more.peak_bytes


@pytest.mark.slow
def test_a_sigterm_handler_of_the_program_is_not_run(tmp_path: Path) -> None:
    """Some save a checkpoint there."""
    script = tmp_path / "train.py"
    mark = tmp_path / "handled"
    lines = [
        "import runpy, signal, sys",
        f"signal.signal({int(signal.SIGTERM)}, lambda *a: open({str(mark)!r}, 'w'))",
        f"sys.argv = ['train']; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')",
    ]
    script.write_text("\n".join(lines))
    found = rehearse(
        [sys.executable, str(script)], tmp_path, dict(os.environ), steps=2, most_seconds=300
    )
    assert found.ending == "steps" and not mark.exists()
