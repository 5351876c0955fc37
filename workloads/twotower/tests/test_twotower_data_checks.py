"""Bad data is refused before the first step, by file, array and row."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twotower.archive import map_archive
from twotower.dataset import open_data
from twotower.errors import BadDataError


@pytest.fixture
def arrays(small_data: Path) -> dict[str, dict[str, Any]]:
    return {
        name: {key: np.array(value) for key, value in map_archive(small_data / name).items()}
        for name in ("pairs.npz", "bank.npz")
    }


def refused(folder: Path, arrays: dict[str, dict[str, Any]]) -> BadDataError:
    for name, members in arrays.items():
        np.savez(folder / name, **members)
    with pytest.raises(BadDataError) as caught:
        open_data(folder / "pairs.npz", folder / "bank.npz")
    return caught.value


def test_good_data_opens_and_is_read_only_once(
    tmp_path: Path, arrays: dict[str, dict[str, Any]]
) -> None:
    for name, members in arrays.items():
        np.savez(tmp_path / name, **members)
    data = open_data(tmp_path / "pairs.npz", tmp_path / "bank.npz")
    assert (len(data.train), len(data.val), data.dimension) == (320, 40, 64)
    assert (tmp_path / "pairs.npz.checked").exists()
    # A changed file is read again, note or not.
    arrays["pairs.npz"]["X_train"][3, 1, 1] = np.nan
    assert refused(tmp_path, arrays).row == 3


@pytest.mark.parametrize(
    ("file", "array", "row", "value", "words"),
    [
        ("pairs.npz", "X_train", (17, 2, 5), np.nan, "NaN"),
        ("pairs.npz", "X_val", (39, 4, 63), np.inf, "infinite"),
        ("bank.npz", "vectors", (1499, 0), np.nan, "NaN"),
    ],
)
def test_values_that_are_not_finite(
    tmp_path: Path,
    arrays: dict[str, dict[str, Any]],
    file: str,
    array: str,
    row: tuple[int, ...],
    value: float,
    words: str,
) -> None:
    # A bank row that is nobody's target, or the pairs would be blamed first.
    arrays[file][array][row] = value
    if array == "vectors":
        for split in ("train", "val"):
            keep = arrays["bank.npz"][f"target_{split}"] != row[0]
            arrays["bank.npz"][f"target_{split}"] = arrays["bank.npz"][f"target_{split}"][keep]
            for name in ("X", "Y"):
                kept = arrays["pairs.npz"][f"{name}_{split}"][keep]
                arrays["pairs.npz"][f"{name}_{split}"] = kept
    error = refused(tmp_path, arrays)
    assert (error.path, error.array, error.row) == (tmp_path / file, array, row[0])
    assert words in str(error)


def test_pairs_and_bank_that_do_not_belong_together(
    tmp_path: Path, arrays: dict[str, dict[str, Any]]
) -> None:
    arrays["pairs.npz"]["Y_train"][[5, 6]] = arrays["pairs.npz"]["Y_train"][[6, 5]]
    error = refused(tmp_path, arrays)
    assert (error.array, error.row) == ("Y_train", 5)
    assert "do not belong together" in str(error)


def test_a_bank_without_targets_is_searched_for_them(
    tmp_path: Path, arrays: dict[str, dict[str, Any]]
) -> None:
    wanted = arrays["bank.npz"].pop("target_train")
    arrays["bank.npz"].pop("target_val")
    for name, members in arrays.items():
        np.savez(tmp_path / name, **members)
    data = open_data(tmp_path / "pairs.npz", tmp_path / "bank.npz")
    np.testing.assert_array_equal(data.train.target_N, wanted)
    arrays["pairs.npz"]["Y_val"][8] = -arrays["pairs.npz"]["Y_val"][8]
    error = refused(tmp_path, arrays)
    assert (error.array, error.row) == ("Y_val", 8)
    assert "do not belong together" in str(error)


def test_shapes_types_and_targets(tmp_path: Path, arrays: dict[str, dict[str, Any]]) -> None:
    def broken(file: str, array: str, value: Any) -> str:
        return str(refused(tmp_path, {**arrays, file: {**arrays[file], array: value}}))

    pairs, bank = arrays["pairs.npz"], arrays["bank.npz"]
    assert "X_train: has the shape (320, 64)" in broken("pairs.npz", "X_train", pairs["Y_train"])
    assert "width 63" in broken("pairs.npz", "X_train", pairs["X_train"][..., :63])
    assert "X_train[300]" in broken("pairs.npz", "Y_train", pairs["Y_train"][:300])
    assert "float64" in broken("pairs.npz", "X_val", pairs["X_val"].astype("f8"))
    assert "vectors[7]: has the length 2" in broken("bank.npz", "vectors", _longer(bank, 7))
    outside = bank["target_val"].copy()
    outside[9] = 1500
    assert "target_val[9]: row 1500 of a bank of 1,500" in broken("bank.npz", "target_val", outside)
    missing = {**arrays, "pairs.npz": {k: v for k, v in pairs.items() if k != "X_val"}}
    assert "X_val: missing; the archive holds X_train" in str(refused(tmp_path, missing))


def _longer(bank: dict[str, Any], row: int) -> Any:
    """A bank with one row of length 2 that is nobody's target."""
    vectors = bank["vectors"].copy()
    assert row not in bank["target_train"] and row not in bank["target_val"]
    vectors[row] *= 2
    return vectors


def test_the_command_refuses_before_the_first_step(
    tmp_path: Path, small_data: Path, twotower: Any
) -> None:
    shutil.copy(small_data / "bank.npz", tmp_path)
    members = {k: np.array(v) for k, v in map_archive(small_data / "pairs.npz").items()}
    members["X_train"][42, 0, 0] = np.nan
    np.savez(tmp_path / "pairs.npz", **members)
    result = twotower("train", "--data", tmp_path, "--out", "run", "--bs", 8, "--accum", 1)
    assert result.returncode == 2
    assert "pairs.npz: X_train[42]: holds NaN" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "run" / "checkpoints").exists()
