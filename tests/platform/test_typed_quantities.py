"""Sizes and lengths of time that people type mean the same wherever they are typed."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from rerail.cli._numbers import Duration
from rerail.errors import RerailError, UsageError
from rerail.platform.typed_quantities import MOST_BYTES, parse_duration, parse_size
from rerail.store import retention
from rerail.study.fields import Table
from rerail.study.lines import KeyLines

SIZES = [
    *(("0", 0), ("1", 1), ("12 b", 12), ("500k", 512_000), ("500 KB", 500_000)),
    *(("1.5 GiB", 3 * 2**29), ("5GB", 5 * 10**9), ("5gb", 5 * 10**9), ("5GiB", 5 * 2**30)),
    *(("5G", 5 * 2**30), ("700MiB", 700 * 2**20), ("2T", 2**41), (" 2tb ", 2 * 10**12)),
]
DURATIONS = [
    *(("90", 90), ("90s", 90), ("30m", 1800), ("30 MIN", 1800), ("1.5h", 5400), ("2H", 7200)),
    *(("30d", 30 * 86400), ("8w", 8 * 7 * 86400)),
]
NEITHER = ["", "x", "5 X", "-1", "1,5", "1e3", "nan", "inf", "5GiBB", "3 4", "9" * 400 + "x"]


def table(value: object) -> Table:
    return Table(Path("study.toml"), KeyLines(""), {"it": value}, ())


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_a_size_means_the_same_everywhere(
    monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    assert parse_size(text) == size
    monkeypatch.setenv("RERAIL_STORE_LIMIT", text)
    assert retention.limit_bytes() == size
    if size:
        assert table(text).size_bytes("it") == size


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_a_length_of_time_means_the_same_everywhere(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert Duration().convert(text, None, None) == seconds
    assert table(text).seconds("it") == seconds


@pytest.mark.parametrize("text", [*NEITHER, "9" * 400])
def test_what_is_neither_is_refused_with_what_to_type(text: str) -> None:
    for parse in (parse_size, parse_duration):
        with pytest.raises(UsageError) as refused:
            parse(text)
        assert "Write it like" in refused.value.help_text and len(refused.value.message) < 80
    for ask in (table(text).size_bytes, table(text).seconds):
        with pytest.raises(RerailError):
            ask("it")
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


def test_what_is_read_is_bounded() -> None:
    assert parse_size(str(MOST_BYTES)) == MOST_BYTES
    with pytest.raises(UsageError, match="more than"):
        parse_size("1048577T")
    with pytest.raises(UsageError, match="more than thirty years"):
        parse_duration("12000d")


def test_a_number_without_a_unit_is_refused_where_it_would_be_a_guess() -> None:
    with pytest.raises(UsageError):
        parse_duration("30", needs_unit=True)
    assert parse_duration("30d", needs_unit=True) == 30 * 86400


@pytest.mark.parametrize("value", [True, [5], {"a": 1}, 0, -1, "0"])
def test_a_study_refuses_what_is_no_measure(value: object) -> None:
    for ask in (table(value).size_bytes, table(value).seconds):
        with pytest.raises(RerailError, match="expected a"):
            ask("it")
