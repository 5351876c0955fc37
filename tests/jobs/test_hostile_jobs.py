"""Job folders that anybody may have written, and places that cannot be reached: who suffers?"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from rerail.errors import UsageError
from rerail.jobs import explain_job, find_job
from rerail.jobs.place import FolderPlace, name_place
from rerail.jobs.sharer import Sharer
from rerail.jobs.table import node_table
from rerail.store import RunFolder

RERAIL = [sys.executable, "-m", "rerail"]
HUGE = 10**400


def types(
    folder: Path, *arguments: str, program: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    shell = ("sh", "-c", "echo ran; exit 3")
    command = (sys.executable, "-c", program) if program else shell
    clean = {name: text for name, text in os.environ.items() if not name.startswith("RERAIL_")}
    return subprocess.run(
        [*RERAIL, "run", "--home", "home", "--no-explain", *arguments, "--", *command],
        cwd=folder,
        env={**clean, "RERAIL_NODE": "a", "RERAIL_JOB_BEAT": "0.2", **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )


def sign(job: Path, node: str, kind: str, document: object) -> Path:
    path = job / node / f"20261118-000000-aaaa.{kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_numbers_without_end_cost_the_reader_nothing(tmp_path: Path) -> None:
    hello = {"schema": 1, "expected": 999_999_999_999, "node_rank": 0, "unix": HUGE, "t": HUGE}
    sign(tmp_path, "a", "hello", {**hello, "attempt": HUGE})
    ranks = [{"rank": rank, "step": HUGE, "t": 1.0} for rank in (0, 1, 99_999_999_999)]
    sign(tmp_path, "a", "beat", {"t": 1.0, "ranks": ranks, "steps": {"9" * 5000: [[1, 1.0]]}})
    sign(tmp_path, "a", "goodbye", {"schema": 1, "t": 2.0, "outcome": "exit", "summary": "it died"})
    answer = explain_job(FolderPlace(tmp_path))
    assert answer.job is not None
    assert answer.job["nodes"][0]["ranks"] == [0, 1, 99_999_999_999]
    assert "ranks 0, 1 and 99999999999" in node_table(answer.job)


def test_names_and_words_do_not_move_the_cursor(tmp_path: Path) -> None:
    hello = {"schema": 1, "host": "\x1b[31mred", "t": 0.0, "unix": 1.0}
    for node in ("a", "\x1b]0;title\x07", os.fsdecode(b"\xff"), "b\nb"):
        sign(tmp_path, node, "hello", hello)
    sign(tmp_path, "a", "goodbye", {"t": 2.0, "outcome": "exit", "summary": "\x1b[2Jgone\n"})
    os.mkfifo(tmp_path / "a" / "20261118-000000-aaaa.beat.json")
    answer = explain_job(FolderPlace(tmp_path))
    assert answer.job is not None
    assert [node["node"] for node in answer.job["nodes"]] == ["a"]
    said = f"{answer.headline}{node_table(answer.job)}{json.dumps(answer.job)}"
    assert "\x1b" not in said and "\\u001b" not in said


@pytest.mark.parametrize("beat", ["[]", "{}", '{"t": null}', '{"t": 1e999}', "[" * 100_000])
def test_what_another_node_wrote_does_not_keep_this_one_from_its_goodbye(
    tmp_path: Path, beat: str
) -> None:
    sign(tmp_path / "shared" / "j", "z", "beat", 0).write_text(beat)
    done = types(tmp_path, "--job", "j", "--job-dir", str(tmp_path / "shared"))
    assert done.returncode == 3 and "does not have all" not in done.stderr
    (goodbye,) = (tmp_path / "shared/j/a").glob("*.goodbye.json")
    assert json.loads(goodbye.read_text())["is_complete"] is True


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"RERAIL_JOB": "auto"}, "found no job"),
        ({"RERAIL_JOB": "j", "RERAIL_JOB_DIR": "nosuch://host/x"}, "nosuch://host/x/j"),
        ({"RERAIL_JOB": "j", "RERAIL_JOB_DIR": "s3://[x/y"}, "is no place for a job"),
        ({"RERAIL_JOB": "j", "RERAIL_JOB_DIR": "~nosuchuser/x"}, "is no place for a job"),
    ],
)
def test_a_variable_keeps_no_run_from_being_recorded(
    tmp_path: Path, variables: dict[str, str], says: str
) -> None:
    clean = dict.fromkeys(("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PET_RDZV_ID", "JOB_NAME"), "")
    done = types(tmp_path, **clean, **variables)
    assert (done.returncode, done.stdout) == (3, "ran\n")
    assert done.stderr.startswith("rerail: this run is not shared with its job: ")
    assert says in done.stderr
    assert len(list((tmp_path / "home/runs").iterdir())) == 1


def test_an_empty_job_is_said(tmp_path: Path) -> None:
    """As `--job "$JOB"` gives it where JOB is not set: nobody would find the run later."""
    done = types(tmp_path, "--job", "")
    assert done.returncode == 2 and "--job is empty" in done.stderr


def test_numbers_of_a_launcher_may_be_anything(tmp_path: Path) -> None:
    done = types(tmp_path, "--job", "j", RANK="9" * 5000, WORLD_SIZE="9" * 5000)
    assert done.returncode == 3 and "cannot record" not in done.stderr


def test_a_store_is_named_without_being_reached_for() -> None:
    """FTP's connects as soon as it is made: a host that does not answer would hold up the run."""
    pytest.importorskip("fsspec")
    assert name_place("ftp://me:secret@127.0.0.1:9/x/", "j") == "ftp://127.0.0.1:9/x/j"
    with pytest.raises(UsageError, match="cannot be used: Protocol not known"):
        name_place("nosuch://host/x", "j")


def test_what_may_not_be_masked_is_not_shared(tmp_path: Path) -> None:
    """The recorder masks `agent/` when it ends a run; of a run that was lost nobody has."""
    types(tmp_path, program="1 / 0")
    (run,) = (tmp_path / "home/runs").iterdir()
    assert list((run / "agent").iterdir())
    states: tuple[Literal["lost", "ended"], ...] = ("lost", "ended")
    for state in states:
        place = tmp_path / state
        asked = {"folder": str(run), "place": str(place), "job": "j", "beat_seconds": 0.2}
        ended = dataclasses.replace(RunFolder(run).info(), state=state)
        Sharer({**asked, "hello": {"schema": 1, "node": "a"}})._end(ended)
        assert find_job(str(place / "j")) is not None
        assert (place / "j/a/runs" / run.name / "run.json").is_file()
        assert (place / "j/a/runs" / run.name / "agent").is_dir() == (state == "ended")


HANGS = """
import time
from rerail.jobs import sharer
sharer.LINGER_SECONDS = sharer._HANG_SECONDS = sharer._WATCH_SECONDS = 0.1
sharer.open_place = lambda *_: time.sleep(3600)
sharer.main()
"""


def test_a_store_that_never_answers_leaves_no_process_behind(tmp_path: Path) -> None:
    types(tmp_path)
    (run,) = (tmp_path / "home/runs").iterdir()
    asked = {"folder": str(run), "place": "x", "job": "j", "beat_seconds": 0.2}
    done = subprocess.run(
        [sys.executable, "-c", HANGS],
        input=json.dumps({**asked, "hello": {"schema": 1, "node": "a"}}),
        text=True,
        timeout=180,
    )
    assert done.returncode == 1
