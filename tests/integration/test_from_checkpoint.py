"""`rerail isolate` and `rerail verify` from a checkpoint, on a training that really dies."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

PROGRAM = str(Path(__file__).parent.parent / "programs" / "checkpoint_trains.py")
RESUMING = ["--checkpoint", "out/step-*", "--resume-args", "--resume {checkpoint}"]
SAFE = ["--try", "--safe"]


def command(*arguments: str, out: str | None = "out") -> list[str]:
    where = ["--out", out] if out else []
    lengths = ["--steps", "2000", "--every", "20"]
    return [sys.executable, PROGRAM, *where, *lengths, *arguments]


def rerail(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rerail", name, "--home", "home", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def record(folder: Path, *words: str) -> None:
    rerail(folder, "run", "-q", "--no-explain", "--", *words)


def ask(folder: Path, name: str, *arguments: str) -> tuple[dict[str, Any], str]:
    done = rerail(folder, name, "--json", "--yes", *arguments)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout), " ".join(done.stderr.split())


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.thorough
def test_a_failure_at_a_step_costs_the_steps_since_the_checkpoint(tmp_path: Path) -> None:
    words = command("--dies-at", "370", "--sharded")  # a checkpoint is a folder
    record(tmp_path, *words)
    before = contents(tmp_path / "out")
    assert "step-360/optimizer.pt" in before
    document, said = ask(tmp_path, "isolate", *RESUMING, *SAFE, "--", *words)
    assert document["status"] == "confirmed" and document["changes"] == ["--safe"]
    assert document["start"]["state"] == "adopted"
    assert document["start"]["checkpoint"] == "out/step-360"
    assert all(trial["checkpoint"] == "out/step-360" for trial in document["trials"])
    crashed = [t["exposure"] for t in document["trials"] if t["outcome"] == "crashed"]
    assert crashed == [10]  # and not 370
    assert "it fails from out/step-360 too, at the same place" in said
    # Trials went on from it, wrote into their copy of it, and into folders of their own.
    first = tmp_path / "home" / "runs" / document["trials"][0]["run"]
    run = json.loads((first / "run.json").read_text())
    assert run["settings"]["resumed_from"] == "out/step-360"
    assert run["settings"]["copy"].startswith(str(tmp_path / "home" / "scratch"))
    assert contents(tmp_path / "out") == before
    assert not (tmp_path / "home" / "scratch").exists()


@pytest.mark.thorough
def test_verify_begins_there_too_and_remembers_how_the_run_was_given_it(tmp_path: Path) -> None:
    words = command("--dies-at", "370", "--colour", "blue")
    done = rerail(tmp_path, "run", "--restarts", "1", "--backoff", "0", *RESUMING, "--", *words)
    assert done.returncode != 0
    before = contents(tmp_path / "out")
    document, said = ask(tmp_path, "verify", "--with", "--safe", "--", *words)
    assert document["status"] == "proven", said
    assert document["start"]["checkpoint"] == "out/step-360.pt"
    assert document["before"]["crashes"] == [10.0, 10.0]
    assert [trial["checkpoint"] for trial in document["trials"]] == ["out/step-360.pt"]
    # Equal steps are those since the checkpoint: the loss of step 361 with that of step 361.
    assert document["cost"]["loss"]["differs_from_step"] is None
    assert contents(tmp_path / "out") == before


@pytest.mark.slow
def test_what_builds_up_in_a_process_is_told_apart_and_trials_begin_anew(tmp_path: Path) -> None:
    # The pause gives rerail time to stop a trial before it has done as many steps by itself.
    words = command("--dies-after", "130", "--pause", "0.05")
    record(tmp_path, *words)
    before = contents(tmp_path / "out")
    document, said = ask(tmp_path, "isolate", *RESUMING, *SAFE, "--", *words)
    assert document["start"]["state"] == "dropped"
    assert "trials begin anew: from out/step-120.pt it stayed clean" in said
    assert document["status"] == "confirmed" and document["changes"] == ["--safe"]
    first, *others = document["trials"]
    assert first["checkpoint"] == "out/step-120.pt" and first["outcome"] == "stopped"
    assert not any("checkpoint" in trial for trial in others)
    assert {t["exposure"] for t in others if t["outcome"] == "crashed"} == {130}
    assert contents(tmp_path / "out") == before  # also where they begin anew


@pytest.mark.slow
def test_a_command_that_finds_its_checkpoint_by_itself_finds_the_copy(tmp_path: Path) -> None:
    """A resume flag without a path: the copy lies where the trial's outputs are."""
    words = command("--dies-at", "370")
    record(tmp_path, *words)
    before = contents(tmp_path / "out")
    resuming = ["--checkpoint", "out/*.pt", "--resume-args", "--auto"]
    document, _ = ask(tmp_path, "verify", *resuming, "--with", "--safe", "--", *words)
    assert document["status"] == "proven"
    assert document["before"]["crashes"] == [10.0, 10.0]
    assert contents(tmp_path / "out") == before


@pytest.mark.slow
def test_without_a_word_for_the_output_it_is_said_where_trials_write(tmp_path: Path) -> None:
    words = command("--dies-at", "370", out=None)
    record(tmp_path, *words)
    kept = contents(tmp_path / "out")
    document, said = ask(tmp_path, "verify", *RESUMING, "--with", "--safe", "--", *words)
    is_said = "trials write where the command writes" in said
    assert is_said or contents(tmp_path / "out") == kept
    assert document["status"] == "proven" and document["start"]["state"] == "adopted"
    # The program writes its own files there; the checkpoint that trials began at was a copy.
    assert "resumed.txt" not in contents(tmp_path / "out")
    assert contents(tmp_path / "out")["step-360.pt"] == kept["step-360.pt"]
    # Without a path in the resume arguments it would be the checkpoint itself.
    resuming = ["--checkpoint", "out/*.pt", "--resume-args", "--auto"]
    document, said = ask(tmp_path, "isolate", *resuming, "--max-trials", "1", *SAFE, "--", *words)
    assert document["start"]["state"] == "dropped"
    assert "it would go on from the checkpoint itself" in said


@pytest.mark.slow
def test_a_checkpoint_that_the_program_refuses_is_followed_by_an_older_one(tmp_path: Path) -> None:
    words = command("--dies-at", "370", "--sharded")
    record(tmp_path, *words)
    times = (tmp_path / "out/step-360/optimizer.pt").stat()
    (tmp_path / "out/step-360/model.pt").rename(tmp_path / "out/step-360/model-0.pt")
    document, said = ask(tmp_path, "verify", *RESUMING, "--with", "--safe", "--", *words)
    assert (tmp_path / "out/step-360/optimizer.pt").stat().st_mtime_ns == times.st_mtime_ns
    assert "checkpoint out/step-360 is passed over: a run from there ended otherwise" in said
    assert document["status"] == "proven" and document["start"]["checkpoint"] == "out/step-340"
    assert document["before"]["crashes"] == [30.0, 30.0]


@pytest.mark.parametrize("name", ["isolate", "verify"])
def test_half_of_what_is_needed_is_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    change = ["--try" if name == "isolate" else "--with", "--safe"]
    done = rerail(tmp_path, name, "--checkpoint", "out/*.pt", *change, "--", *command())
    assert done.returncode == 2 and "--checkpoint needs --resume-args" in done.stderr
    assert not (tmp_path / "out").exists()
