"""isolate, verify and study: the answer is told, with the command that follows from it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from receiving import GUARD_SECONDS, last_run, notified, rerail, web_server

from rerail.store import Store

DIES = (
    "import os\nfor step in range(5): print(f'step {step}', flush=True)\n"
    "if os.environ.get('FIX') != '1': os.abort()\n"
    "for step in range(5, 60): print(f'step {step}', flush=True)\n"
)
TRAINS = Path(__file__).parents[1] / "programs" / "study_train.py"


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    program = tmp_path / "train.py"
    program.write_text(DIES)
    return ("--", sys.executable, "train.py")


def test_an_investigation_and_a_verification(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = tmp_path / "home"
    with web_server() as server:
        notify = ("--notify", server.url, "--stall", "30")
        found = rerail(
            *("isolate", "--yes", "--try", "FIX=1", "--json", *notify, *command),
            home=home,
            cwd=tmp_path,
        )
        document = json.loads(found.stdout)
        told = server.next()
        assert document["status"] == "confirmed"
        assert told.document["event"] == "proof" and told.document["status"] == "confirmed"
        first, *_, last = told.text.splitlines()
        assert first.startswith("isolate: Confirmed: FIX=1 removes the failure")
        assert last == f"rerail verify --with FIX=1 {shlex.join(command)}"
        run = Store(home).resolve(document["failure"]["run"])
        assert [event["event"] for event in notified(run)] == ["proof"]

        verified = rerail(
            *("verify", "--yes", "--with", "FIX=1", "--json", *notify, *command),
            home=home,
            cwd=tmp_path,
        )
        document = json.loads(verified.stdout)
        told = server.next()
        assert told.document["status"] == document["status"]
        is_proof = document["status"] in ("proven", "refuted")
        assert told.document["event"] == ("proof" if is_proof else "end")
        assert told.text.splitlines()[0] == f"verify: {document['summary'][0]}"
        assert server.arrived.empty()  # trials tell nobody


def test_a_fix_that_is_none(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = tmp_path / "home"
    rerail("run", *command, home=home, cwd=tmp_path)
    with web_server() as server:
        words = (
            "verify",
            "--yes",
            "--with",
            "OTHER=1",
            "--notify",
            server.url,
            "--notify-on",
            "proof",
        )
        done = rerail(*words, *command, home=home, cwd=tmp_path)
        told = server.next()
    assert done.returncode == 1
    assert (told.document["event"], told.document["status"]) == ("proof", "refuted")
    assert told.text.splitlines()[-1] == f"rerail isolate {shlex.join(command)}"


def test_a_study(tmp_path: Path) -> None:
    words = shlex.join([sys.executable, str(TRAINS)]) + " --faults {here}/faults"
    (tmp_path / "s.toml").write_text(
        f'command = {json.dumps(words)}\nartifacts = ["metrics.json"]\n\n[axes]\n"--lr" = [0.1]\n'
    )
    (tmp_path / "faults").mkdir()
    home = tmp_path / "home"
    with web_server() as server:
        study = ("study", "s.toml", "--notify", server.url)
        assert rerail(*study, home=home, cwd=tmp_path).returncode == 0
        told = server.next()
    assert told.text.splitlines()[0] == "study: s: 1 of 1 cells are done"
    assert told.document["event"] == "end"
    assert told.text.splitlines()[-1] == "rerail study report s.toml"
    kept = (tmp_path / "s.study" / "events.jsonl").read_text()
    assert json.loads(kept)["sent"] is True


def test_a_study_with_a_cell_that_fails(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-c", "raise ValueError({--lr})"])
    (tmp_path / "s.toml").write_text(
        f'command = {json.dumps(command)}\nartifacts = ["metrics.json"]\n\n[axes]\n"--lr" = [0.1]\n'
    )
    with web_server() as server:
        words = ("study", "s.toml", "--notify", server.url)
        assert rerail(*words, home=tmp_path / "home", cwd=tmp_path).returncode == 1
        told = server.next()
    assert told.document["event"] == "death"
    assert told.text.splitlines()[0] == "study: s: 0 of 1 cells are done, 1 failed"
    assert told.text.splitlines()[-1] == "rerail study s.toml --again"


def test_a_run_that_somebody_stops_is_told_unless_they_sit_there(tmp_path: Path) -> None:
    program = "import time\nprint('step 1', flush=True)\ntime.sleep(600)"
    with web_server() as server:
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "rerail", "run", "--notify", server.url),
                *("--", sys.executable, "-c", program),
            ],
            env={**os.environ, "RERAIL_HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None and child.stdout.readline() == b"step 1\n"
        child.send_signal(signal.SIGTERM)  # a scheduler
        child.stdout.close()
        assert child.wait(GUARD_SECONDS) == -signal.SIGTERM
        assert server.next().document["event"] == "death"
    assert notified(last_run(tmp_path))[0]["sent"] is True
