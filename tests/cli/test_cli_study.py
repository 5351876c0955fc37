"""`rerail study` as a person types it, with real cells."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from rerail.cli import main
from rerail.store import liveness
from rerail.study import concluding, needs

PROGRAM = Path(__file__).parents[1] / "programs" / "study_train.py"
STUDY = f"""\
command = {json.dumps(shlex.join([sys.executable, str(PROGRAM)]) + " --faults {here}/faults")}
artifacts = ["weights/final.npz", "metrics.json"]

[axes]
"--lr" = [0.1, 0.2]

[metrics.score]
file = "metrics.json"
key = "val.score"

[metrics.loss]
output = 'loss (\\S+)'
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "faults").mkdir()
    (tmp_path / "s.toml").write_text(STUDY)


def fault(cell: str, *what: str) -> None:
    Path("faults", cell).write_text("\n".join(what) + "\n")


def results(cell: str) -> list[str]:
    folder = Path("s.study/results", cell)
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


FILES = ["metrics.json", "rerail-cell.json", "weights/final.npz"]


def test_a_healthy_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "s.toml"]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 cells done" in out and "What score depends on" in out
    assert max(map(len, out.splitlines())) <= 80
    assert results("lr=0.1") == results("lr=0.2") == FILES
    assert Path("s.study/report.html").exists()
    assert main(["study", "status", "--json", "s.toml"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["done"] == 2 and document["cells"][0]["metrics"].keys() == {"score", "loss"}
    assert main(["study", "report", "s.toml", "--csv", "-"]) == 0
    assert capsys.readouterr().out.startswith("cell,lr,seed,state,score,loss,seconds")


@pytest.mark.parametrize("axes", ["", '[axes]\n"--lr" = [0.1]', '[axes]\n"--lr" = [0.1, 0.2]'])
def test_a_metric_that_no_cell_printed(axes: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, rest = STUDY.split("\n[axes]")[0], "\n[metrics.none]\noutput = 'none (\\S+)'\n"
    Path("s.toml").write_text(f"{command}\n{axes}\n{rest}")
    for words in ([], ["status"], ["report"], ["report", "--json"]):
        assert main(["study", *words, "s.toml"]) == 0
        assert "defect" not in capsys.readouterr().err


@pytest.mark.parametrize("change", ["same size", "shorter", "gone", "all gone"])
def test_a_collected_result_that_was_changed_is_bad_news(
    change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "s.toml"]) == 0
    folder = Path("s.study/results/lr=0.1")
    result = folder / "metrics.json"
    if change == "same size":
        result.write_bytes(result.read_bytes()[::-1])
    elif change == "shorter":
        result.write_text("{}")
    else:
        result.unlink() if change == "gone" else folder.rename("elsewhere")
    capsys.readouterr()
    for words in (["status"], ["report"]):
        assert main(["study", *words, "s.toml"]) == 1
        assert "results of 1 changed since" in capsys.readouterr().out
    if change == "all gone":
        assert main(["study", "s.toml"]) == 0, "it is run again"
        return
    assert main(["study", "--json", "s.toml"]) == 1
    printed = capsys.readouterr()
    damage = [cell["damage"] for cell in json.loads(printed.out)["cells"]]
    assert damage == [[f"{result.absolute()} is gone or was changed"], []]
    assert main(["study", "s.toml"]) == 1
    assert f"move {folder.absolute()} away" in capsys.readouterr().err


def test_deaths_are_explained_and_only_some_are_tried_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault("lr=0.1", "segfault")
    fault("lr=0.2", "raise")
    assert main(["study", "s.toml"]) == 1
    printed = capsys.readouterr()
    assert "native-segfault" in printed.out and "shape-mismatch" in printed.out
    assert "again as it was" in printed.out and "comes back every time" in printed.out
    assert "a shape that does not fit" in " ".join(printed.out.split())
    assert results("lr=0.1") == FILES and results("lr=0.2") == []
    assert "--again" in printed.err
    assert main(["study", "s.toml"]) == 1, "what was given up stays so until it is asked for"
    assert main(["study", "s.toml", "--again"]) == 0
    assert results("lr=0.2") == FILES
    assert not Path("s.study/aside").exists()


@pytest.mark.parametrize("what", ["leave-nothing", "half-a-file"])
def test_without_whole_files_a_cell_is_not_done(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fault("lr=0.1", what)
    assert main(["study", "s.toml", "--quiet"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "files missing" in out and "ended well" in out and "weights/final.npz" in out
    assert results("lr=0.1") == [] and results("lr=0.2") == FILES


def test_a_hang_is_ended_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.toml").write_text(STUDY + "\n[limits]\nstall = 1\n")
    fault("lr=0.1", "hang")
    assert main(["study", "s.toml", "--json", "--quiet"]) == 0
    cell = json.loads(capsys.readouterr().out)["cells"][0]
    assert [a["verdict"] for a in cell["attempts"]] == ["died", "ok"]
    assert "hung for" in cell["attempts"][0]["summary"]


def test_over_its_time_a_cell_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.toml").write_text(STUDY + "\n[limits]\ntime = 1\n")
    fault("lr=0.2", "hang")
    assert main(["study", "s.toml", "--json", "--quiet"]) == 1
    cell = json.loads(capsys.readouterr().out)["cells"][1]
    assert cell["state"] == "failed" and "time limit" in cell["failure"]


def test_over_its_memory_a_cell_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.toml").write_text(STUDY + '\n[limits]\nmemory = "200MiB"\n')
    fault("lr=0.2", "grow")
    assert main(["study", "s.toml", "--json", "--quiet"]) == 1
    first, second = json.loads(capsys.readouterr().out)["cells"]
    assert first["state"] == "done" and second["state"] == "failed"
    assert "its limit is 200 MiB" in second["failure"]


def test_finished_cells_are_not_run_again_nor_overwritten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["study", "s.toml", "--quiet", "--only", "lr=0.1"]) == 1
    before = Path("s.study/results/lr=0.1/weights/final.npz").stat()
    assert main(["study", "s.toml", "--quiet"]) == 0
    assert Path("s.study/results/lr=0.1/weights/final.npz").stat().st_ino == before.st_ino
    capsys.readouterr()
    Path("s.toml").write_text(STUDY.replace("--faults", "--steps 30 --faults"))
    assert main(["study", "s.toml"]) == 2
    assert "something else of 2 finished cells" in capsys.readouterr().err


def test_an_unfinished_cell_whose_command_changed_begins_anew(
    capsys: pytest.CaptureFixture[str],
) -> None:
    resume = '\n[resume]\ncheckpoint = "weights/checkpoint.json"\n'
    fault("lr=0.1", "raise")
    Path("s.toml").write_text(STUDY + resume)
    assert main(["study", "s.toml", "--quiet", "--only", "lr=0.1"]) == 1
    Path("s.toml").write_text(STUDY.replace("--faults", "--steps 10 --faults") + resume)
    assert main(["study", "s.toml", "--quiet", "--again"]) == 0
    capsys.readouterr()
    assert main(["study", "status", "--json", "s.toml"]) == 0
    first = json.loads(capsys.readouterr().out)["cells"][0]
    assert [a["resumed_from"] for a in first["attempts"]] == ["", ""]


def test_results_of_somebody_else_stop_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    foreign = Path("s.study/results/lr=0.2")
    foreign.mkdir(parents=True)
    (foreign / "mine.pt").write_text("precious")
    assert main(["study", "s.toml"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (foreign / "mine.pt").read_text() == "precious"


def test_results_that_were_taken_away_are_made_again() -> None:
    assert main(["study", "s.toml", "--quiet"]) == 0
    Path("s.study/results/lr=0.1").rename("mine")
    assert main(["study", "s.toml", "--quiet"]) == 0
    assert results("lr=0.1") == FILES


def test_without_room_on_the_disk_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(needs, "read_machine", lambda _: needs.Machine(None, 1000, None, None))
        assert main(["study", "s.toml"]) == 1
    said = capsys.readouterr().err
    assert "stopped before lr=0.1: the disk has 1000 bytes free" in said
    assert main(["study", "s.toml"]) == 0, "with room it goes on"


def test_a_process_that_is_left_behind_is_ended_before_files_are_collected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(concluding, "STRAGGLER_SECONDS", 0.1)
    script = "setsid sleep 1000 & echo $! > left.txt"
    Path("s.toml").write_text(f"command = ['sh', '-c', '{script}']\nartifacts = ['left.txt']\n")
    assert main(["study", "s.toml"]) == 0
    assert "left 1 processes behind" in capsys.readouterr().err
    pid = int(Path("s.study/results/s/left.txt").read_text())
    assert not liveness.has_process(pid, 0)


def test_two_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    Path("s.toml").write_text(STUDY.replace("[0.1, 0.2]", "[0.1, 0.2, 0.3]"))
    assert main(["study", "s.toml", "--jobs", "2"]) == 0
    assert "3 of 3 cells done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["study", "none.toml"], "there is no study file"),
        (["study", "s.toml", "--only", "lr=0.11"], "Did you mean lr=0.1?"),
        (["study", "s.toml", "--jobs", "0"], "--jobs"),
        (["study", "s.toml", "--scheduler", "moon"], "no scheduler"),
        (["study", "status", "s.toml"], "has not been started"),
        (["study", "new", "--"], "no command"),
        (["study", "new", "-o", "s.toml", "--", "true"], "not overwritten"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_new_file_can_be_run_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, str(PROGRAM), "--lr", "0.1", "--seed", "1"]
    assert main(["study", "new", "-o", "n.toml", "--", *command]) == 0
    assert "rerail study n.toml" in capsys.readouterr().out
    assert main(["study", "n.toml"]) == 0


def test_a_command_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.toml").write_text('command = "no-such-program"\n')
    assert main(["study", "s.toml"]) == 1
    assert "no-such-program" in capsys.readouterr().out
