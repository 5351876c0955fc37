"""The table: each row finds its own example and leaves its near miss alone."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from planted import all_named, all_shapes, make

from rerail.privacy import Masker
from rerail.privacy.finding import find_secrets
from rerail.privacy.shapes import SHAPES

ROOT = Path(__file__).parents[2]
ROWS = [pytest.param(shape, id=f"{shape.kind}-{i}") for i, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("shape", ROWS)
def test_a_row_finds_its_example_wherever_it_stands(shape):
    chance = random.Random(shape.example)
    for _ in range(5):
        planted = make(shape.kind, shape.example, chance)
        for before, after in (("", ""), ("using ", " now"), ("\x1b[32m", "\x1b[0m"), ("(", ")")):
            masked = Masker().mask_text(before + planted.text + after)
            for secret in planted.secrets:
                assert secret not in masked, (shape.kind, planted.text)
            assert "[secret-" in masked


@pytest.mark.parametrize("shape", ROWS)
def test_a_row_leaves_its_near_miss_alone(shape):
    assert Masker().mask_text(f"see {shape.near_miss} here") == f"see {shape.near_miss} here"


def test_no_example_in_the_table_is_itself_a_secret():
    for shape in SHAPES:
        assert re.search(r"<[ahdulwb]\d+>", shape.example), shape.kind


def test_there_are_enough_kinds():
    assert len({shape.kind for shape in SHAPES}) >= 100


@pytest.mark.parametrize("planted", all_named(), ids=lambda planted: planted.kind)
def test_a_name_announces_its_value(planted):
    masked = Masker().mask_text(planted.text)
    assert not any(secret in masked for secret in planted.secrets), masked


@pytest.mark.parametrize(
    "text",
    [
        b"password=" * 100_000,
        b"token: '" * 100_000,
        b"a" * 1_000_000,
        b"-----BEGIN PRIVATE KEY-----" * 30_000,
        b"eyJ." * 250_000,
        b"://" * 300_000,
        b"machine login password " * 40_000,
        b"1:" * 500_000,
        b"\x1b[" * 500_000,
        b"<" * 1_000_000,
        b"curl -u " * 100_000,
    ],
    ids=lambda text: text[:12].decode("latin-1"),
)
def test_no_text_takes_long(text):
    """A guard against a pattern that is not linear: that would take hours, not seconds."""
    began = time.monotonic()
    find_secrets(text)
    assert time.monotonic() - began < 60


def test_every_planted_secret_is_another_one():
    secrets = [secret for planted in all_shapes() for secret in planted.secrets]
    assert len(secrets) == len(set(secrets)) > 100


def test_the_page_of_kinds_is_complete():
    page = " ".join((ROOT / "docs" / "secrets.md").read_text(encoding="utf-8").split())
    missing = [shape.kind for shape in SHAPES if shape.kind not in page]
    assert missing == []
