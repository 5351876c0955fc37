"""Metrics are read from JSON, JSONL and output, or it is said why not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.study.metrics import read_metrics
from rerail.study.model import Metric, Take


def value_of(folder: Path, metric: Metric) -> float | str:
    values, missing = read_metrics([metric], folder, None)
    return values[metric.name] if metric.name in values else missing[metric.name]


def test_a_json_file_and_a_dotted_key(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"val": {"psnr": 21.5, "all": [1, 2]}, "a.b": 3}')
    assert value_of(tmp_path, Metric("p", file="m.json", key="val.psnr")) == 21.5
    assert value_of(tmp_path, Metric("p", file="m.json", key="val.all.-1")) == 2
    assert value_of(tmp_path, Metric("p", file="m.json", key="a.b")) == 3
    assert (
        value_of(tmp_path, Metric("p", file="m.json", key="val.ssim")) == "m.json does not say it"
    )
    assert value_of(tmp_path, Metric("p", file="no.json", key="x")) == "there is no no.json to read"


@pytest.mark.parametrize(
    ("take", "wanted"), [("last", 2.0), ("first", 3.0), ("max", 5.0), ("min", 2.0)]
)
def test_of_many_lines_one_is_taken(tmp_path: Path, take: Take, wanted: float) -> None:
    rows = [{"loss": 3}, {"other": 1}, {"loss": 5}, {"loss": 2}]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert value_of(tmp_path, Metric("l", file="m.jsonl", key="loss", take=take)) == wanted


def test_what_is_no_number_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"loss": NaN}')
    assert value_of(tmp_path, Metric("l", file="m.json", key="loss")) == "m.json says nan"
    (tmp_path / "m.json").write_text('{"loss": ')
    assert "not whole" in str(value_of(tmp_path, Metric("l", file="m.json", key="loss")))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, number: float
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "n.json").write_text(json.dumps({"x": number}))
    found = value_of(folder, Metric("x", file="n.json", key="x"))
    assert isinstance(found, float) and math.isclose(found, number)
