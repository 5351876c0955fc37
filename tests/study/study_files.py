"""Study files for the tests of the study room."""

from __future__ import annotations

from pathlib import Path

from rerail.study import load_study
from rerail.study.model import Study

PROGRAMS = Path(__file__).parents[1] / "programs"
TRAIN = PROGRAMS / "study_train.py"

SMALL = """\
command = "python train.py --seed {seed}"
seeds = [0, 1]
artifacts = ["weights/*.pt", "metrics.json"]

[axes]
"--lr" = [0.1, 0.2]
width = [2, 4]

[environment]
WIDTH = "{width}"
"""


def write(folder: Path, text: str, name: str = "s.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def study_of(folder: Path, text: str) -> Study:
    return load_study(write(folder, text))
