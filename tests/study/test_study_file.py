"""A study file is read whole, or refused with its line and what was expected there."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_files import SMALL, study_of, write

from rerail.errors import RerailError, UnreadableInput
from rerail.study import load_study


def refused(folder: Path, text: str) -> RerailError:
    with pytest.raises(RerailError) as caught:
        study_of(folder, text)
    return caught.value


def test_everything_that_a_file_can_say(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    study = study_of(
        tmp_path,
        SMALL.replace('artifacts = ["weights/*.pt", "metrics.json"]', "")
        + """
[metrics.psnr]
file = "metrics.json"
key = "val.psnr"
goal = "max"
[metrics.loss]
output = 'loss (\\S+)'
take = "min"
[resume]
checkpoint = "weights/*.pt"
arguments = "--resume {checkpoint}"
[limits]
cores = 1
memory = "2GiB"
time = "30m"
stall = 90
jobs = 2
retries = { default = 1, host-oom = 3 }
[[cell]]
name = "wide"
width = 64
"--lr" = 0.3
""",
    )
    assert study.name == "s" and study.folder == tmp_path / "s.study"
    assert study.results == tmp_path / "s.study" / "results"
    assert [axis.name for axis in study.axes] == ["--lr", "width"]
    assert study.limits.memory_bytes == 2 * 2**30 and study.limits.time_seconds == 1800
    assert study.limits.retries == {"default": 1, "host-oom": 3}
    assert study.resume is not None and study.resume.arguments == ("--resume", "{checkpoint}")
    assert study.metrics[0].key == "val.psnr" and study.metrics[1].take == "min"
    assert study.explicit[0].parameters == {"width": 64, "--lr": 0.3}


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ('command = "x"\n[axes]\n"--lr" = 3\n', 3, "expected a list of values"),
        ('command = "x"\n[axes]\n\n"--lr" = []\n', 4, "empty list"),
        ('command = "x"\n[axes]\n"--lr" = [1, 1]\n', 3, "twice"),
        ('command = "x"\n[axes]\n"--lr" = [[[1]]]\n', 3, "expected a number"),
        ('command = "x"\n\ncomand = "y"\n', 3, "no such setting"),
        ('command = "x"\n[axes]\nlr = [1, 2]\n', 3, "nothing of the command would change"),
        ('command = "x --lr 1"\n[axes]\n"--lr" = [1, 2]\n', 3, "the command gives it too"),
        ('command = "sh -c true"\n[axes]\n"--lr" = [1, 2]\n', 3, "cannot be added to a script"),
        ('command = "x {lr}"\n', 1, "no axis"),
        ('command = "x"\nseeds = [1, 2]\n', 2, "does not reach the command"),
        ('command = "x"\nseeds = ["a"]\n', 2, "whole numbers"),
        ('command = "x"\n[limits]\ntime = "soon"\n', 3, "a time such as"),
        ('command = "x"\n[limits]\nmemory = -1\n', 3, "a size such as"),
        ('command = "x"\n[limits]\njobs = 0\n', 3, "at least 1"),
        ('command = "x"\n[limits]\n[limits.retries]\nhost-oops = 1\n', 4, "no such cause"),
        ('command = "x"\nartifacts = ["../w.pt"]\n', 2, "within the cell's working folder"),
        ('command = "x"\n[metrics.a]\nfile = "a.csv"\n', 3, ".json or .jsonl"),
        ('command = "x"\n[metrics.a]\noutput = "loss"\n', 3, "a group around the number"),
        ('command = "x"\n[metrics.a]\ntake = "last"\n', 2, "either file (with key) or output"),
        ('command = "x"\nkeep = "some"\n', 2, "one of last, all, artifacts"),
        ('command = "x"\ninputs = ["nowhere.py"]\n', 2, "there is no nowhere.py"),
        ('command = "x"\n[[cell]]\nname = "a"\n[[cell]]\nname = "a"\n', 4, "twice"),
        ('command = "x {lr}"\n[[cell]]\nlr = 1\n[[cell]]\nname = "b"\n', 4, "no value for {lr}"),
        ("name = 'a'\n", 1, "there is no command"),
        ('command = "x"\nname = "../x"\n', 2, "letters, digits"),
        ("command = x\n", 1, "not TOML"),
        ('command = "x"\n[axes\n', 2, "not TOML"),
    ],
)
def test_a_wrong_file_names_line_and_expectation(
    tmp_path: Path, text: str, line: int, expected: str
) -> None:
    error = refused(tmp_path, text)
    assert f"s.toml:{line}: " in error.message
    assert expected in error.message
    assert error.exit_status == 2


def test_a_script_that_no_cell_would_find_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    error = refused(tmp_path, 'command = "python train.py"\n')
    assert "folder of its own" in error.message and 'inputs = ["train.py"]' in error.help_text
    assert study_of(tmp_path, 'command = "python train.py"\ninputs = ["train.py"]\n')
    assert study_of(tmp_path, 'command = "python {here}/train.py"\n')


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no study file") as caught:
        load_study(tmp_path / "none.toml")
    assert "rerail study new" in caught.value.help_text
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableInput):
        load_study(tmp_path / "binary.toml")
    assert write(tmp_path, SMALL)
