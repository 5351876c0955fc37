"""A program that forbids itself to open files ends under the agent as it does without."""

from __future__ import annotations

import sys

import pytest
from agent_runs import PROGRAMS, Runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")


def ends_the_same(run: Runner, action: str, how: str) -> None:
    arguments = [str(PROGRAMS / "forbids_open.py"), action, how]
    bare, recorded = run(arguments, agent=False), run(arguments)
    if bare.status == 77:
        pytest.skip("no seccomp filter can be installed here")
    assert (recorded.status, recorded.stdout) == (bare.status, bare.stdout), recorded.stderr
    assert recorded.stderr == bare.stderr


@pytest.mark.parametrize("action", ["errno", "kill"])
@pytest.mark.parametrize("how", ["exit", "raise", "fork", "crash"])
def test_a_filter_on_opening_files_changes_no_end(run: Runner, action: str, how: str) -> None:
    ends_the_same(run, action, how)


@pytest.mark.thorough
@pytest.mark.torch
def test_a_filter_that_kills_leaves_a_training_alone(run: Runner) -> None:
    pytest.importorskip("torch")
    ends_the_same(run, "kill", "train")
