"""Damaged and hostile checkpoints: the right answer for each, within 10 s and a gigabyte."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("checkpoint_target.py")


@pytest.mark.thorough
def test_every_file_gets_the_right_answer_within_its_bounds() -> None:
    pytest.importorskip("torch")
    # A process of its own: the limit on memory must not fall on the other tests.
    ended = subprocess.run(
        [sys.executable, str(TARGET), "--cases", "400", "--seed", "0"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout)
    assert found["cases"] == 400 and found["wrong"] == []
    assert found["answers"]["sound"] > 20 and found["answers"]["refused"] > 100
