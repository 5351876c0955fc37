"""A driver under `rerail run`, and a submitted job, on a cluster that runs apart from both."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
DRIVER = PROGRAMS / "ray_driver.py"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
RERAIL = [sys.executable, "-m", "rerail"]
pytestmark = pytest.mark.slow  # a cluster and its workers take half a minute
pytest.importorskip("ray", reason="Ray is not installed: pip install 'rerail[ray]'")
HAS_JOBS = importlib.util.find_spec("aiohttp_cors") is not None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables with which a program finds it. `ray start --block` ends what it has started."""
    place = tmp_path_factory.mktemp("ray")
    port, dashboard = _free_port(), _free_port()
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "HOME": str(place),
        "RAY_ADDRESS": f"127.0.0.1:{port}",
        "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{dashboard}",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    options = ["--head", "--block", f"--port={port}", "--num-cpus=2"]
    options += ["--object-store-memory=100000000", f"--include-dashboard={HAS_JOBS}"]
    options += [f"--dashboard-port={dashboard}", f"--temp-dir={place / 'r'}"]
    started = [*RAY, "start", *options]
    with (place / "head.log").open("wb") as log:
        head = subprocess.Popen(
            started, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(head, variables, place / "head.log")
        yield variables
    finally:
        os.killpg(head.pid, signal.SIGTERM)
        head.wait(180)


def _wait_for(head: subprocess.Popen[bytes], variables: dict[str, str], log: Path) -> None:
    question = [*RAY, *(["job", "list"] if HAS_JOBS else ["status"])]
    for _ in range(60):
        said = log.read_text(errors="replace")[-2000:]
        assert head.poll() is None, said
        if subprocess.run(question, env=variables, capture_output=True).returncode == 0:
            return
    raise AssertionError(f"the cluster did not answer: {said}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def explained(home: Path, variables: dict[str, str], program: str) -> dict[str, Any]:
    """The answer of the one run of this program, of those that are in the store."""
    asked = [*RERAIL, "runs", "--json", f"--home={home}"]
    listed = subprocess.run(asked, env=variables, capture_output=True, check=True).stdout
    [one] = [run for run in json.loads(listed)["runs"] if program in " ".join(run["command"])]
    asked = [*RERAIL, "explain", one["id"], "--json", f"--home={home}"]
    done = subprocess.run(asked, env=variables, capture_output=True)  # 1: it has a cause
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize(
    ("way", "cause", "words"),
    [
        (
            "segfault",
            "native-segfault",
            "SIGSEGV in ray_driver.py:{line} update() (Ray worker Server",
        ),
        ("kill", "killed-from-outside", "Somebody killed the Ray worker Server (pid "),
        ("exit", "worker-crashed", "The Ray worker Server (pid "),
        ("sys-exit", "worker-crashed", "exited with code 4"),
        ("raises", "python-exception", "ValueError: no such column: label in ray_driver.py:"),
    ],
)
def test_the_answer_to_a_driver_is_how_its_worker_ended(
    way: str, cause: str, words: str, cluster: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    command = [*RERAIL, "run", f"--home={home}", "--", sys.executable, str(DRIVER), way]
    done = subprocess.run(
        command, env=cluster, cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1, done.stderr[-3000:]
    answer = explained(home, cluster, DRIVER.name)
    line = DRIVER.read_text().splitlines().index("            ctypes.string_at(0)  # dies here") + 1
    assert words.format(line=line) in answer["headline"], answer["headline"]
    assert answer["causes"][0]["id"] == cause
    assert answer["outcome"]["exit_code"] == 1  # the driver's own end
    assert answer["headline"] in " ".join(done.stderr.split())


@pytest.mark.skipif(not HAS_JOBS, reason="no jobs without a dashboard: pip install 'ray[default]'")
def test_a_submitted_job_is_recorded_where_it_runs(cluster: dict[str, str], tmp_path: Path) -> None:
    """As docs/ray.md says it. Ray removes the folder that a job runs in: the store is elsewhere."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(
        "import ctypes\nfor step in range(5):\n    print('step', step, flush=True)\n"
        "ctypes.string_at(0)\n"
    )
    home = tmp_path / "home"
    environment = json.dumps({"env_vars": {"RERAIL_HOME": str(home)}})
    submit = [*RAY, "job", "submit", "--working-dir=.", f"--runtime-env-json={environment}"]
    done = subprocess.run(
        [*submit, "--", "rerail", "run", "--", "python", "train.py"],
        env=cluster,
        cwd=work,
        capture_output=True,
        text=True,
        timeout=240,
    )
    said = done.stdout + done.stderr
    assert "SIGSEGV in train.py:4 (step 4)" in said, said[-3000:]
    assert "failed with exit code 139" in said and done.returncode != 0
    answer = explained(home, cluster, "train.py")
    assert answer["causes"][0]["id"] == "native-segfault"
    assert answer["facts"]["where"]["line"] == 4
