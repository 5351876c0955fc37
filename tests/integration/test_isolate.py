"""`rerail isolate` on commands that really die."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rerail import cli

Answer = Callable[..., tuple[int, dict[str, Any]]]
DIES = str(Path(__file__).parent.parent / "programs" / "isolate_dies.py")
AT_START = str(Path(__file__).parent.parent / "programs" / "fails_at_start.py")
HANGS = str(Path(__file__).parent.parent / "programs" / "isolate_hangs.py")


def isolate(
    home: Path, *arguments: str, seconds: float = 180.0
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rerail", "isolate", "--yes", "--home", str(home), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=home.parent,
    )


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Answer:
    """In this process: what it starts are the trials."""

    def ask(home: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.chdir(home.parent)
        before = signal.getsignal(signal.SIGTERM)
        status = cli.main(
            ["isolate", "--yes", "--home", str(home), "--json", "--max-trials", "40", *arguments]
        )
        signal.signal(signal.SIGTERM, before)
        said = capsys.readouterr()
        assert status in (0, 1), said.err
        return status, json.loads(said.out)

    return ask


@pytest.mark.thorough
def test_the_change_that_removes_the_failure_is_confirmed_and_kept(
    tmp_path: Path, answer: Answer
) -> None:
    home = tmp_path / "home"
    tries = ["--try", "--mode good", "--try", "--colour blue", "--try", "GOOD=1"]
    status, document = answer(home, *tries, "--", sys.executable, DIES)
    assert status == 0
    assert document["schema"] == 1
    assert document["status"] == "confirmed"
    assert document["changes"] == ["--mode good"]
    assert document["confidence"] >= 0.99
    assert set(document["ruled_out"]) <= {"--colour blue", "GOOD=1"}
    first = document["trials"][0]
    assert first["changes"] == [] and first["outcome"] == "crashed"
    assert first["cause"] == "native-segfault" and first["unit"] == "seconds"
    runs = sorted(path.name for path in (home / "runs").iterdir())
    assert runs == sorted(trial["run"] for trial in document["trials"])
    kept = json.loads((home / "runs" / first["run"] / "investigation.json").read_text())
    assert kept["changes"] == ["--mode good"]
    # Asked again, it answers from what it has.
    _, again = answer(home, *tries, "--", sys.executable, DIES)
    assert again["trials"] == document["trials"]


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["exit", "hang"])
def test_a_failure_before_the_first_step_takes_at_most_six_trials(
    tmp_path: Path, answer: Answer, how: str
) -> None:
    arguments = ["--stall", "3", "--try", "GOOD=1", "--", sys.executable, AT_START, "--how", how]
    status, document = answer(tmp_path / "home", *arguments)
    assert status == 0 and document["changes"] == ["GOOD=1"]
    assert document["confidence"] >= 0.99 and document["unit"] == "steps"
    assert len(document["trials"]) <= 6
    assert {trial["exposure"] for trial in document["trials"] if not trial["changes"]} == {1}


def test_nothing_is_tried_on_an_exception_that_no_trial_tells_anything_about(
    tmp_path: Path, answer: Answer
) -> None:
    program = tmp_path / "train.py"
    program.write_text("settings = {'lr': 0.1}\nprint(settings['momentum'])\n")
    status, document = answer(tmp_path / "home", "--", sys.executable, str(program))
    assert status == 1 and document["status"] == "inconclusive"
    assert [trial["changes"] for trial in document["trials"]] == [[]]
    assert "KeyError" in document["reason"] and "--edits" in document["reason"]


@pytest.mark.slow
def test_two_changes_that_are_needed_together(tmp_path: Path, answer: Answer) -> None:
    command = [sys.executable, DIES, "--lives-with", "both"]
    tries = ["--try", "--mode good", "--try", "--colour blue", "--try", "GOOD=1"]
    _, document = answer(tmp_path / "home", *tries, "--", *command)
    assert document["status"] == "confirmed"
    assert sorted(document["changes"]) == ["--mode good", "GOOD=1"]


def test_none_of_these(tmp_path: Path, answer: Answer) -> None:
    command = [sys.executable, DIES, "--lives-with", "nothing"]
    status, document = answer(
        tmp_path / "home", "--try", "--mode good", "--try", "--colour blue", "--", *command
    )
    assert status == 1
    assert document["status"] == "none-of-these" and document["changes"] == []


def test_a_failure_that_never_comes_is_not_reproduced(tmp_path: Path) -> None:
    done = isolate(
        tmp_path / "home",
        *("--json", "--max-trials", "2", "--try", "--colour blue", "--"),
        *(sys.executable, DIES, "--lives-with", "always", "--until-seconds", "0"),
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "not-reproduced"


@pytest.mark.thorough
def test_values_of_one_thing_are_tried_apart_and_what_is_refused_is_left_out(
    tmp_path: Path, answer: Answer
) -> None:
    tries = ["--mode strange", "--mode good", "--no-such-option 1", "--colour red"]
    # Late enough that a refusal comes before it however busy the machine is.
    command = [sys.executable, DIES, "--colour", "red", "--until-seconds", "1.0"]
    flags = [word for text in tries for word in ("--try", text)]
    _, document = answer(tmp_path / "home", *flags, "--seed", "3", "--", *command)
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]
    assert not any({*tries[:2]} <= set(trial["changes"]) for trial in document["trials"])
    left_out = document["not_applicable"]
    # The answer may be there before all have had their turn.
    alone = {t["changes"][0] for t in document["trials"] if len(t["changes"]) == 1}
    assert alone - {"--mode good"} <= {*left_out, *document["ruled_out"]}
    assert left_out.keys() - {"--colour red"}
    assert "already" in left_out["--colour red"]


@pytest.mark.thorough
def test_a_death_inside_a_wrapper_that_ends_well_counts(tmp_path: Path, answer: Answer) -> None:
    script = shlex.join([sys.executable, DIES, "--mode", "bad"]) + "; true"
    _, document = answer(
        tmp_path / "home", "--try", "--mode good", "--try", "UNRELATED=1", "--", "sh", "-c", script
    )
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]


@pytest.mark.thorough
def test_a_trial_that_hangs_is_not_clean_for_as_long_as_it_hangs(
    tmp_path: Path, answer: Answer
) -> None:
    tries = ["--try", "--colour blue", "--try", "--mode good", "--stall", "2"]
    _, document = answer(tmp_path / "home", *tries, "--", sys.executable, HANGS)
    assert document["failure"]["kind"] == "hang"
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]
    for trial in document["trials"]:
        if "--mode good" not in trial["changes"]:
            assert trial["outcome"] == "crashed"
            assert trial["exposure"] <= trial["seconds"] - 2.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--", "no-such-command-here"], "no-such-command-here"),
        (["--try", "--mode good"], "no command"),
        (["--try", "nonsense", "--", "true"], "not a change"),
        (["--try", "--mode good", "--", sys.executable, DIES, "--mode", "good"], "already"),
        (["--budget", "soon", "--", "true"], "not a time"),
        (["--reproducer", "/", "--", "true"], "there already"),
        (["--scheduler", "moon", "--", "true"], "moon"),
        (["--jobs", "5000", "--", "true"], "processors"),
    ],
)
def test_wrong_usage_is_a_sentence(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["isolate", "--home", str(tmp_path / "home"), *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said


@pytest.mark.thorough
def test_ctrl_c_keeps_everything_and_the_same_command_goes_on(
    tmp_path: Path, answer: Answer
) -> None:
    home = tmp_path / "home"
    arguments = ["--try", "--mode good", "--try", "--colour blue", "--", sys.executable, DIES]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "rerail",
            "isolate",
            "--yes",
            "--home",
            str(home),
            "--json",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "trial 3" in line:
            break
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["status"] == "inconclusive" and len(document["trials"]) >= 2
    _, after = answer(home, *arguments)
    assert after["status"] == "confirmed" and after["changes"] == ["--mode good"]
    assert after["trials"][:2] == document["trials"][:2]


@pytest.mark.slow
def test_runs_on_record_count_as_seen(tmp_path: Path, answer: Answer) -> None:
    home = tmp_path / "home"
    subprocess.run(
        [sys.executable, "-m", "rerail", "run", "--home", str(home), "--", sys.executable, DIES],
        capture_output=True,
        timeout=180,
        cwd=tmp_path,
    )
    _, document = answer(home, "--try", "--mode good", "--", sys.executable, DIES)
    assert len(document["earlier_runs"]) == 1
    assert document["status"] == "confirmed" and document["changes"] == ["--mode good"]


def test_the_list_names_what_applies(tmp_path: Path) -> None:
    done = isolate(tmp_path / "home", "--list", "--json", "--", sys.executable, DIES)
    assert done.returncode == 0
    listed = {change["text"] for change in json.loads(done.stdout)["changes"]}
    assert {"dataloader-workers=0", "one-openmp-runtime", "malloc-check"} <= listed


@pytest.mark.slow
def test_a_change_under_which_it_hangs_is_not_a_cure(tmp_path: Path, answer: Answer) -> None:
    tries = ["--try", "--mode stuck", "--try", "--colour blue"]
    command = [sys.executable, DIES, "--works", "--until-seconds", "2.5"]
    status, document = answer(tmp_path / "home", "--stall", "5", *tries, "--", *command)
    assert status == 1 and document["status"] != "confirmed"
    assert "--mode stuck" in document["not_applicable"]
    stuck = [t for t in document["trials"] if "--mode stuck" in t["changes"]]
    assert stuck and {t["outcome"] for t in stuck} == {"other"}


@pytest.mark.thorough
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_trials_at_once(tmp_path: Path, answer: Answer) -> None:
    tries = ["--try", "--mode good", "--try", "--colour blue", "--try", "GOOD=1"]
    # Two at once on a busy machine: seconds would say little about how long each lived.
    command = [sys.executable, DIES, "--counts"]
    status, document = answer(tmp_path / "home", "--jobs", "2", *tries, "--", *command)
    assert status == 0 and document["changes"] == ["--mode good"]
    assert {trial["unit"] for trial in document["trials"]} == {"steps"}


@pytest.mark.thorough
def test_the_reproducer_is_the_smallest_command_and_fails(tmp_path: Path, answer: Answer) -> None:
    folder = tmp_path / "reproducer"
    command = [sys.executable, DIES, "--lives-with", "variable", "--colour", "green"]
    _, document = answer(
        tmp_path / "home", "--reproducer", str(folder), "--try", "GOOD=1", "--", *command
    )
    made = document["reproducer"]
    assert document["status"] == "confirmed"
    assert made["fails"] and made["is_smallest"]
    assert made["command"] == [sys.executable, DIES]
    assert sorted(made["left_away"]) == ["--colour green", "--lives-with variable"]
    again = subprocess.run(["sh", folder / "run.sh"], capture_output=True, timeout=180)
    assert again.returncode == -signal.SIGSEGV
    assert "SIGSEGV" in (folder / "README.md").read_text()
