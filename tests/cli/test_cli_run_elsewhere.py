"""What `rerail run` leaves elsewhere: metrics for Prometheus, the summary of a job on GitHub."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.recorder.metrics_file import Metrics, render
from rerail.store import Store

prometheus = pytest.importorskip("prometheus_client.parser", reason="no prometheus_client here")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")

DIES = "print('step 4 loss 0.25', flush=True)\nraise ValueError('password=hunter2hunter in *x*')"


def run(home: Path, *options: str, program: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rerail", "run", "--home", str(home), *options),
            *("--", sys.executable, "-c", program),
        ],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stderr


def samples(text: str) -> dict[tuple[str, str], Any]:
    """Name and the label that tells it from its siblings, as both parsers read it."""
    read = []
    for parser in (prometheus, openmetrics):
        found = {}
        for family in parser.text_string_to_metric_families(text):
            assert family.type == "gauge" and family.documentation
            for sample in family.samples:
                rest = {key: value for key, value in sample.labels.items() if key != "run"}
                told = rest.get("state") or rest.get("limit") or ""
                found[sample.name, told] = (sample.value, rest)
        read.append(found)
    assert repr(read[0]) == repr(read[1])
    return read[0]


def test_a_death_in_metrics(tmp_path: Path) -> None:
    target = tmp_path / "rerail.prom"
    status, said = run(tmp_path, "--metrics-file", str(target), "--label", 'a "b"', program=DIES)
    assert status == 1 and "metrics" not in said
    found = samples(target.read_text())
    assert found["rerail_run_state", "died"][0] == 1
    assert found["rerail_run_state", "running"][0] == 0
    assert found["rerail_run_step", ""][0] == 4
    assert found["rerail_run_loss", ""][0] == 0.25
    assert found["rerail_run_death", ""][1] == {"outcome": "exit 1", "cause": "python-exception"}
    assert found["rerail_run_labeled", ""][1] == {"label": 'a "b"'}
    assert target.stat().st_mode & 0o777 == 0o644  # the exporter is another user
    assert sorted(path.name for path in tmp_path.glob(".rerail.prom*")) == []


def test_by_variable_and_an_end(tmp_path: Path) -> None:
    target = tmp_path / "rerail.prom"
    run(tmp_path, program="pass", RERAIL_METRICS_FILE=str(target))
    found = samples(target.read_text())
    assert found["rerail_run_state", "ended"][0] == 1
    assert not any(name == "rerail_run_death" for name, _ in found)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_while_it_runs(tmp_path: Path) -> None:
    target = tmp_path / "rerail.prom"
    child = subprocess.Popen(
        [
            *(sys.executable, "-m", "rerail", "run", "--home", str(tmp_path)),
            *("--metrics-file", str(target), "--", sys.executable, "-c"),
            "import time; time.sleep(600)",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + 180
        while not target.exists() and time.monotonic() < give_up:
            time.sleep(0.05)
        found = samples(target.read_text())
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(180)
    assert found["rerail_run_state", "running"][0] == 1
    assert found["rerail_run_processes", ""][0] == 1
    assert found["rerail_run_memory_bytes", ""][0] > 1 << 20
    used, limit = (
        found[f"rerail_run_memory_limit{part}_bytes", "machine"][0] for part in ("_used", "")
    )
    assert 0 < used <= limit
    last = samples(target.read_text())
    assert last["rerail_run_state", "died"][0] == 1
    # The child that writes is no process of the run.
    assert len(Store(tmp_path).resolve("last").processes()) == 1


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "none" / "rerail.prom"
    status, said = run(tmp_path, "--metrics-file", str(target), program="raise SystemExit(7)")
    assert status == 7
    assert f"rerail: the metrics were not written to {target}: no such file" in said
    assert "Make its folder first" in said


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR])
def test_metrics_file_that_is_a_pipe_or_a_device_stays_one(tmp_path: Path, kind: int) -> None:
    target = tmp_path / "target"
    try:
        os.mknod(target, 0o600 | kind, os.makedev(1, 7))  # 1, 7 is /dev/full
        os.close(os.open(target, os.O_RDWR))
    except OSError:
        pytest.skip("only root can make a device, and the file system must allow it")
    variables = {"RERAIL_METRICS_FILE": str(target)}
    status, said = run(tmp_path, program="raise SystemExit(7)", **variables)
    assert status == 7 and stat.S_IFMT(target.stat().st_mode) == kind
    advice = {stat.S_IFIFO: "Start the program that reads", stat.S_IFCHR: "this is a device"}
    assert advice[kind] in said


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there is no /dev/stdout")  # noqa: PTH110
@pytest.mark.parametrize("name", ["stdout", "stderr", "fd/1"])
def test_a_standard_stream_gets_no_metrics_and_that_is_said(tmp_path: Path, name: str) -> None:
    variables = {"RERAIL_METRICS_FILE": f"/dev/{name}"}
    status, said = run(tmp_path, program="raise SystemExit(7)", **variables)
    assert status == 7 and "rerail_run_" not in said
    assert f"rerail: the metrics were not written to /dev/{name}: metrics are not mixed" in said
    assert "Name a regular file with --metrics-file: this is a stream of the command." in said


@given(st.text(), st.text(), st.none() | st.floats(), st.none() | st.integers(0, 1 << 62))
def test_whatever_the_values_both_parsers_read_it(
    label: str, cause: str, loss: float | None, step: int | None
) -> None:
    metrics = Metrics("id", "died", label=label, loss=loss, step=step, outcome="x", cause=cause)
    # The parsers of the tests split at every end of a line that Python knows.
    if len((label + cause).splitlines()) <= 1 and (label + cause).isprintable():
        found = samples(render(metrics, 1.0))
        assert found["rerail_run_labeled", ""][1]["label"] == label
        assert found["rerail_run_death", ""][1]["cause"] == cause
        assert (("rerail_run_loss", "") in found) == (loss is not None)


def test_the_summary_of_a_job(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Build\nwent well\n")
    variables = {"GITHUB_STEP_SUMMARY": str(summary), "WANDB_API_KEY": "zx81zx81zx"}
    status, said = run(tmp_path / "home", program=DIES, **variables)
    assert status == 1 and "summary" not in said
    text = summary.read_text()
    run_id = Store(tmp_path / "home").resolve("last").id
    assert text.startswith("# Build\nwent well\n\n# ValueError: password=")
    assert "hunter2" not in text and "\\*x\\*" in text
    assert "Cause: `python-exception`" in text and f"`rerail explain {run_id}`" in text
    run(tmp_path / "home", program="print('step 9 loss 1')", **variables)
    added = summary.read_text().removeprefix(text)
    assert added.startswith("\nrerail: finished after ") and "step 9" in added
    assert len(added.splitlines()) == 2
    run(tmp_path / "home", "--no-explain", program=DIES, **variables)
    assert summary.read_text() == text + added


def test_a_summary_is_bounded(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.touch()
    variables = {"GITHUB_STEP_SUMMARY": str(summary)}
    run(tmp_path, program=f"{DIES} # {'x' * 60_000}", **variables)
    assert 0 < len(summary.read_bytes()) <= 33 << 10
    assert "ValueError" in summary.read_text()


def test_a_summary_that_is_not_there_or_is_a_pipe_changes_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path / "none", pipe):
        status, said = run(tmp_path, program="raise SystemExit(7)", GITHUB_STEP_SUMMARY=str(path))
        assert status == 7 and "the summary of this job was not written" in said
    assert not (tmp_path / "none").exists()
