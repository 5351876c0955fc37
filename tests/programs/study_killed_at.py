"""Runs a study and kills itself with SIGKILL at its Nth step: study_killed_at.py N STUDY HOME.

A step is the moment before or after something that reaches the disk. Prints how many steps there
were if it came to the end.
"""

import os
import signal
import sys
from pathlib import Path

from rerail.store import Store
from rerail.study import artifacts, concluding, load_study, run_study, workspace
from rerail.study.journal import Journal

steps = 0
last = int(sys.argv[1])


def step() -> None:
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)


def stepped(holder, name):
    original = getattr(holder, name)

    def wrapper(*arguments, **options):
        step()
        result = original(*arguments, **options)
        step()
        return result

    setattr(holder, name, wrapper)


stepped(Journal, "write")
stepped(artifacts, "_take")
stepped(artifacts, "collect")
stepped(artifacts, "forget_originals")
stepped(workspace, "prepare")
stepped(workspace, "tidy")
assert concluding.artifacts is artifacts
states = run_study(load_study(Path(sys.argv[2])), Store(sys.argv[3]))
print(steps, all(state.state == "done" for state in states.values()))
