"""Real actors of a real Ray that die: the answer says who, how and where in the user's code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[1] / "programs" / "ray_deaths.py"
TRAINER = Path(__file__).parents[1] / "programs" / "ray_train_worker.py"
pytestmark = pytest.mark.slow  # a cluster and its workers take half a minute
pytest.importorskip("ray", reason="Ray is not installed: pip install 'rerail[ray]'")


def answers(home: Path, *ways: str, **variables: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(home), *ways],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **variables},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {each["way"]: each for each in found}


def test_each_death_of_an_actor_has_its_own_answer(tmp_path: Path) -> None:
    ways = ("segfault", "kill", "exit", "sys-exit", "init", "ray-kill")
    told = answers(tmp_path / "home", *ways)
    assert tuple(told) == ways
    headlines = {way: each["answer"]["headline"] for way, each in told.items()}
    causes = {
        way: each["answer"]["causes"][0]["id"] if each["answer"]["causes"] else None
        for way, each in told.items()
    }
    line = PROGRAM.read_text().splitlines().index("            ctypes.string_at(0)  # dies here")
    who = {way: f"the-{way}:Server (pid {each['pid']})" for way, each in told.items()}
    assert f"SIGSEGV in ray_deaths.py:{line + 1} die()" in headlines["segfault"]
    assert who["segfault"] in headlines["segfault"] and causes["segfault"] == "native-segfault"
    assert who["kill"] in headlines["kill"] and causes["kill"] == "killed-from-outside"
    assert who["exit"] in headlines["exit"] and "called os._exit(3) in" in headlines["exit"]
    assert told["sys-exit"]["answer"]["outcome"]["exit_code"] == 4
    assert "ValueError: no weights in shard 3 in ray_deaths.py" in headlines["init"]
    assert causes["init"] == "python-exception"
    assert "`ray.kill`" in headlines["ray-kill"]


def test_the_memory_monitor_of_ray_is_told_from_the_kernel(tmp_path: Path) -> None:
    memory = dict(re.findall(r"(\w+):\s+(\d+)", Path("/proc/meminfo").read_text()))
    used = 1 - (int(memory["MemAvailable"]) - 3 * 2**20) / int(memory["MemTotal"])
    if used > 0.9:
        pytest.skip("less than 3 GiB of memory are free")
    told = answers(
        tmp_path / "home",
        "memory",
        RAY_memory_usage_threshold=f"{used:.3f}",
        RAY_memory_monitor_refresh_ms="50",
    )
    answer = told["memory"]["answer"]
    assert answer["headline"].startswith("Ray's memory monitor killed the Ray worker the-memory")
    assert answer["causes"][0]["id"] == "host-oom"


@pytest.mark.torch
def test_a_worker_of_ray_train_that_dies_is_named_by_its_rank(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Ray Train needs pyarrow")
    done = subprocess.run(
        [sys.executable, str(TRAINER), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("rerail: ")]
    assert re.match(r"rerail: Somebody killed rank 1 with SIGKILL at step \d", said[0])
