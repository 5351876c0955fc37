"""The grid becomes cells with names, words and variables of their own."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from study_files import SMALL, study_of

from rerail.study.cells import expand
from rerail.study.model import Axis, Study


def test_every_combination_with_every_seed(tmp_path: Path) -> None:
    cells = expand(study_of(tmp_path, SMALL))
    assert len(cells) == 8
    first = cells[0]
    assert first.name == "lr=0.1_width=2_seed=0"
    assert first.command == ("python", "train.py", "--seed", "0", "--lr", "0.1")
    assert first.environment["WIDTH"] == "2" and first.environment["RERAIL_SEED"] == "0"
    assert len({cell.key for cell in cells}) == 8


def test_growing_a_study_keeps_the_cells_there_were(tmp_path: Path) -> None:
    before = {cell.name: cell.key for cell in expand(study_of(tmp_path, SMALL))}
    grown = SMALL.replace("[0.1, 0.2]", "[0.05, 0.1, 0.2]").replace("[0, 1]", "[0, 1, 2]")
    after = {cell.name: cell.key for cell in expand(study_of(tmp_path, grown))}
    assert before.items() <= after.items() and len(after) == 18


def test_moving_a_study_keeps_its_keys(tmp_path: Path) -> None:
    keys = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        study = study_of(tmp_path / name, 'command = "python {here}/t.py"\n')
        (cell,) = expand(study)
        assert cell.command[1] == str(tmp_path / name / "t.py")
        keys.append(cell.key)
    assert keys[0] == keys[1]


def test_flags_lists_variables_and_braces(tmp_path: Path) -> None:
    study = study_of(
        tmp_path,
        """command = ["run", "${HOME}", "{{x}}"]
[axes]
"--fast" = [true, false]
"--sizes" = [[1, 2]]
OMP_NUM_THREADS = [1]
""",
    )
    fast, slow = expand(study)
    assert fast.command == ("run", "${HOME}", "{x}", "--fast", "--sizes", "1", "2")
    assert slow.command == ("run", "${HOME}", "{x}", "--sizes", "1", "2")
    assert fast.environment["OMP_NUM_THREADS"] == "1"


def test_without_axes_the_command_is_the_one_cell(tmp_path: Path) -> None:
    (cell,) = expand(study_of(tmp_path, 'command = "true"\n'))
    assert cell.name == "s"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True))
def test_any_values_give_names_that_are_folders_and_differ(values: list[str]) -> None:
    path = Path("/nowhere/s.toml")
    study = Study(path, "s", path, path, ("x", "{v}"), axes=(Axis("v", tuple(values)),))
    names = [cell.name for cell in expand(study)]
    assert len(set(names)) == len(values)
    for name in names:
        assert "/" not in name and not name.startswith(".") and len(name) < 200
        assert name.isascii() and name.isprintable() and name.strip()
