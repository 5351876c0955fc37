"""Real gloo ranks: the slow one is named while it trains, the missing one before the timeout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PROGRAM = Path(__file__).parent.parent / "programs" / "straggling.py"
SLOW = ("--excess=0.6", "--from=40", "--steps=200")


def events(home: Path, *arguments: str) -> list[dict[str, Any]]:
    subprocess.run(
        [
            *(sys.executable, "-m", "rerail", "run", "--no-explain", f"--home={home}", "--"),
            *(sys.executable, str(PROGRAM), *arguments),
        ],
        capture_output=True,
        timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    lines = next(home.glob("runs/*/events.jsonl")).read_text().splitlines()
    wanted = ("straggler", "rank-missing")
    return [event for line in lines if (event := json.loads(line))["kind"] in wanted]


@pytest.mark.parametrize("part", ["compute", "data"])
def test_a_slow_rank_is_named_with_the_part_of_its_step(tmp_path: Path, part: str) -> None:
    told = events(tmp_path, *SLOW, "--victim=2", f"--part={part}")
    assert [event["kind"] for event in told] == ["straggler"]
    assert (told[0]["rank"], told[0]["part"]) == (2, part)


def test_data_parallel_ranks_are_told_apart_although_they_wait_in_backward(tmp_path: Path) -> None:
    told = events(tmp_path, *SLOW, "--victim=1", "--ddp")
    assert [(event["kind"], event["rank"]) for event in told] == [("straggler", 1)]


def test_a_missing_rank_is_named_with_its_line_before_the_timeout(tmp_path: Path) -> None:
    told = events(tmp_path, "--stuck=20", "--steps=60", "--victim=1", "--timeout=45")
    last = told[-1]
    assert (last["kind"], last["rank"], last["waiting"]) == ("rank-missing", 1, [0, 2])
    assert last["waited_seconds"] < 45
    assert "straggling.py" in last["text"] and "load_shard()" in last["text"]
