"""Where rerail's answer begins, and a command that ends with exit code 0 and has failed inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rerail import api
from rerail.diagnosis import ending_of
from rerail.records import Outcome

CAUGHT = """
import sys, traceback
def train():
    for step in range(60):
        print(f"step {step} loss {1 / (step + 1)}")
        if step == 40:
            raise ValueError("bad batch: expected 8 features, got 9")
try:
    train()
except Exception:
    traceback.print_exc(file=sys.stdout)
print("the report is written")
"""
TOLD_TO_STOP = """
import os, signal
stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
for step in range(60):
    print(f"step {step} loss {1 / (step + 1)}", flush=True)
    if step == 20:
        os.kill(os.getpid(), signal.SIGTERM)
    if stops:
        print("[rank: 0] Received SIGTERM: 15", flush=True)
        break
"""
SURVIVED = """
import sys, traceback
for step in range(60):
    print(f"step {step} loss {1 / (step + 1)}")
    if step == 4:
        try:
            raise ConnectionError("the tracker does not answer")
        except ConnectionError:
            traceback.print_exc(file=sys.stdout)
print("finished without an error")
"""


def recorded(
    home: Path, program: str, *options: str
) -> tuple[subprocess.CompletedProcess[str], api.Run]:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "run", "--home", str(home), *options, "--",
         sys.executable, "-u", "-c", program],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    return done, api.open_run(home=home)


def listed(home: Path, *options: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "rerail", "runs", "--home", str(home), *options],
        capture_output=True, text=True, check=True, timeout=240,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    ).stdout  # fmt: skip


@pytest.mark.parametrize(
    ("program", "said"),
    [(CAUGHT, "bad batch: expected 8 features, got 9"), (TOLD_TO_STOP, "Received SIGTERM")],
    ids=["an exception that was caught", "a signal that was handled"],
)
def test_what_the_command_swallowed_is_said_in_one_line(
    program: str, said: str, tmp_path: Path
) -> None:
    done, run = recorded(tmp_path, program)
    assert done.returncode == 0
    empty, line = done.stderr.splitlines()[-2:]
    assert empty == ""
    assert line.startswith("! rerail: exit code 0, but: ")
    assert said in line
    assert run.ending == "swallowed"
    assert run.has_failed
    row = listed(tmp_path).splitlines()[-1]
    assert row.startswith("! ")
    assert "✓" not in row
    assert row in listed(tmp_path, "--failed")


WARNED = """
import logging
for step in range(1, 51):
    if step == 20:
        logging.warning("ConnectionError: [Errno 111] Connection refused, retrying")
    print(f"step {step}/50 loss {1 / step:.4f}")
"""


@pytest.mark.parametrize("program", [SURVIVED, WARNED, "print('no error, nothing failed')"])
def test_a_run_that_got_over_an_error_has_ended_well(program: str, tmp_path: Path) -> None:
    done, run = recorded(tmp_path, program)
    assert "rerail:" not in done.stderr
    assert run.ending == "ok"
    assert listed(tmp_path).splitlines()[-1].startswith("✓ ")


def test_the_notification_is_of_a_death(tmp_path: Path) -> None:
    told = tmp_path / "told"
    recorded(tmp_path / "home", CAUGHT, "--notify", f"cat > {told}")
    assert told.read_text().startswith("exit code 0, but: ValueError: bad batch")


BAR = "import sys; sys.stderr.write('\\r29/30 [loss=0.121]'); sys.stderr.flush(); sys.exit(3)"


@pytest.mark.parametrize("program", [BAR, "import sys; print('x', file=sys.stderr); sys.exit(3)"])
def test_the_answer_begins_on_a_line_of_its_own(program: str, tmp_path: Path) -> None:
    done, _ = recorded(tmp_path, program)
    before, _, answer = done.stderr.partition("rerail: ")
    assert before.endswith("\n\n✗ ")
    assert not before.endswith("\n\n\n✗ ")
    assert answer.startswith("The program called sys.exit(3)")


def test_json_has_nothing_before_it(tmp_path: Path) -> None:
    done, _ = recorded(tmp_path, CAUGHT, "--json")
    assert json.loads(done.stdout)["causes"]
    assert done.stderr.splitlines()[-1].startswith("! rerail: exit code 0, but: ")


@pytest.mark.parametrize(
    ("outcome", "probability", "ending"),
    [
        (None, None, "failed"),
        (Outcome("exit", "", exit_code=1), None, "failed"),
        (Outcome("ok", "the command ended well"), None, "ok"),
        (Outcome("ok", "the command ended well"), 0.3, "ok"),
        (Outcome("ok", "the command ended well"), 0.6, "swallowed"),
        (Outcome("ok", "exit code 0 after 1 s, although its process died"), None, "swallowed"),
    ],
)
def test_one_rule_says_how_a_run_ended(
    outcome: Outcome | None, probability: float | None, ending: str
) -> None:
    assert ending_of(outcome, probability) == ending
