"""Three hosts, one cut off in the middle, one with a clock that is 90 s wrong: who was it?

Real: network namespaces, three gloo ranks, a link that goes down, a shared folder or an object
store that the lost host cannot reach any more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from network_hosts import SWITCH_ADDRESS, Hosts

PROGRAMS = Path(__file__).parent.parent / "programs"
NAMES = ("a", "b", "c")
WRONG_SECONDS = -90
CUT_AT_STEP = 30
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}

pytestmark = [pytest.mark.slow, pytest.mark.torch]


@pytest.fixture
def wrong_clock(tmp_path: Path) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("no gcc to make a library that shifts the clock")
    library = tmp_path / "wrong_clock.so"
    source = PROGRAMS / "wrong_clock.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def start_ranks(
    hosts: Hosts, folder: Path, place: str, wrong_clock: Path, **environ: str
) -> list[subprocess.Popen[str]]:
    started = []
    for rank, name in enumerate(NAMES):
        variables = {
            **os.environ,
            **environ,
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "MASTER_ADDR": hosts.address("a"),
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
            "RERAIL_JOB_BEAT": "0.5",
        }
        if name == "c":
            variables |= {"LD_PRELOAD": str(wrong_clock), "WRONG_CLOCK": str(WRONG_SECONDS)}
        command = [sys.executable, "-m", "rerail", "run", "--home", str(folder / name)]
        command += ["--job", "j", "--job-dir", place, "--nnodes", "3", "--no-explain", "--"]
        command += [sys.executable, str(PROGRAMS / "job_trains.py"), "--steps", "2000"]
        command += ["--out", str(folder)]
        started.append(hosts.start(name, command, variables, folder))
    return started


def wait_for_step(folder: Path, step: int, ranks: list[subprocess.Popen[str]]) -> None:
    until = time.monotonic() + 180
    counts = [folder / f"steps-{rank}" for rank in range(len(NAMES))]
    while time.monotonic() < until:
        assert all(rank.poll() is None for rank in ranks), [r.communicate() for r in ranks]
        if all(path.is_file() and int(path.read_text() or 0) >= step for path in counts):
            return
        time.sleep(0.05)
    raise AssertionError("the training did not start")


def explain(place: str, **environ: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "explain", "--json", place],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environ},
    )
    assert done.returncode == 1, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def check_order(document: dict[str, Any]) -> None:
    """The cut before every ending, though the clock of host c says that it ended 80 s earlier."""
    nodes = {each["node"]: each for each in document["job"]["nodes"]}
    first = document["job"]["first"]
    assert first["node"] == "b"
    assert all(first["t_seconds"] < nodes[name]["last_seen_seconds"] for name in "ac")
    assert abs(nodes["c"]["last_seen_seconds"] - nodes["a"]["last_seen_seconds"]) < 30
    ahead = nodes["c"]["clock_ahead_seconds"] - nodes["a"]["clock_ahead_seconds"]
    assert abs(ahead - WRONG_SECONDS) < 2
    assert all(nodes[name]["offset_uncertainty_seconds"] < 1.0 for name in "ac")


def test_the_host_that_lost_its_link_is_named(tmp_path: Path, wrong_clock: Path) -> None:
    """All hosts can still write to the shared folder: b itself saw its link go down."""
    with Hosts(*NAMES) as hosts:
        place = str(tmp_path / "shared")
        ranks = start_ranks(hosts, tmp_path, place, wrong_clock)
        wait_for_step(tmp_path, CUT_AT_STEP, ranks)
        hosts.cut_off("b")
        assert all(rank.wait(180) != 0 for rank in ranks)
    document = explain(f"{place}/j")
    assert document["headline"].startswith("Node b (rank 1) lost its network at step ")
    assert "eth0 went down" in document["headline"]
    assert document["causes"][0]["id"] == "node-lost"
    check_order(document)


def test_the_host_that_nobody_hears_any_more_is_named(tmp_path: Path, wrong_clock: Path) -> None:
    """The store is behind the network: host b can tell nobody what happened to it."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with Hosts(*NAMES) as hosts:
        server = [sys.executable, "-m", "moto.server", "-H", SWITCH_ADDRESS, "-p", "5000"]
        store = hosts.on_switch(server, tmp_path)
        environ = {**KEYS, "AWS_ENDPOINT_URL": f"http://{SWITCH_ADDRESS}:5000"}
        make = "import s3fs; s3fs.S3FileSystem().mkdir('records')"
        for _ in range(60):
            made = hosts.start(
                "a", [sys.executable, "-c", make], {**os.environ, **environ}, tmp_path
            )
            if made.wait(180) == 0:
                break
            assert store.poll() is None
        ranks = start_ranks(hosts, tmp_path, "s3://records", wrong_clock, **environ)
        wait_for_step(tmp_path, CUT_AT_STEP, ranks)
        hosts.cut_off("b")
        assert all(rank.wait(180) != 0 for rank in ranks)
        asks = [sys.executable, "-m", "rerail", "explain", "--json", "s3://records/j"]
        until = time.monotonic() + 180
        while True:  # a moment ago it was heard of: that is not long enough to be missed
            asked = hosts.start("a", asks, {**os.environ, **environ}, tmp_path)
            answer, said = asked.communicate(timeout=240)
            assert asked.returncode in (0, 1), said
            document = json.loads(answer)
            if document["job"].get("first") or time.monotonic() > until:
                break
    assert document["headline"].startswith("Node b (rank 1) vanished at step "), document[
        "headline"
    ]
    assert "without a goodbye" in document["headline"]
    assert {each["node"]: each["state"] for each in document["job"]["nodes"]}["b"] == "vanished"
    check_order(document)
