"""The command as a person types it: wrong input is named, right input gives what was promised."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lowlight.cli import main
from lowlight.config import build_config
from lowlight.errors import LowlightError


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.mark.thorough
def test_train_evaluate_and_enhance(
    small_flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, dark = tmp_path / "run", tmp_path / "dark.jpg"
    Image.fromarray(np.full((37, 53, 3), 30, np.uint8)).save(dark)
    assert call(capsys, "train", "--out", run, *small_flags, "--steps", 3)[0] == 0
    status, out, _ = call(capsys, "evaluate", run, "--json")
    assert status == 0
    assert json.loads(out) == json.loads((run / "metrics.json").read_text())["results"]
    assert "equalised" in call(capsys, "evaluate", run)[1]

    target = tmp_path / "bright.png"
    assert call(capsys, "enhance", run, dark, target)[0] == 0
    with Image.open(target) as image:
        assert image.size == (53, 37)
    status, _, err = call(capsys, "enhance", run, dark, target)
    assert status == 2 and "is there already" in err
    for wrong in ("nothing.png", "run/config.json"):
        status, _, err = call(capsys, "enhance", run, tmp_path / wrong, tmp_path / "new.png")
        assert status == 2 and "cannot be read as a picture" in err
    status, _, err = call(capsys, "enhance", run, dark, tmp_path / "bright.doc")
    assert status == 2 and "not a kind of picture" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--steps", 0), "--steps 0: at least 1"),
        (("--crop", 30), "--crop 30: a multiple of 4"),
        (("--faces", 9), "--faces 9: at most --batch-size 8"),
        (("--face-weight", 0.5, "--faces", 0), "needs faces in the batch"),
        (("--d-weight", "nan"), "--d-weight nan: at least 0"),
        (("--pictures", "nowhere"), "--pictures nowhere: no such folder"),
        (("--device", "quantum"), "--device quantum: this torch has cpu"),
        (("--lr", 0), "--lr 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    flags: tuple[Any, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = call(capsys, "train", "--out", tmp_path / "run", *flags)
    assert status == 2 and message in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = call(capsys, "evaluate", tmp_path)
    assert status == 2 and "holds no config.json" in err
    (tmp_path / "config.json").write_text("[1")
    status, _, err = call(capsys, "train", "--out", tmp_path, "--resume")
    assert status == 2 and "is not the config.json of a run" in err


def test_help_fits_the_terminal_and_shows_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("train", "evaluate", "enhance"):
        status, out, _ = call(capsys, command, "--help")
        assert status == 0 and f"lowlight {command}" in out.partition("example:")[2]
        assert [line for line in out.splitlines() if len(line) > 80] == []


def test_numbers_that_are_no_numbers_are_refused() -> None:
    for name in ("lr", "clip", "hvi_weight"):
        with pytest.raises(LowlightError):
            build_config({name: math.nan})
