"""Secrets in the layouts and quotings of other languages and tools, whole and in pieces."""

from __future__ import annotations

import pytest
from planted_layouts import planted_layouts
from test_privacy_planted_set import printed_in_pieces

from rerail.privacy import Masker, OutputMasker

LAYOUTS = [pytest.param(planted, id=planted.kind) for planted in planted_layouts()]


@pytest.mark.parametrize("planted", LAYOUTS)
def test_a_secret_is_masked_however_it_is_written(planted):
    seen = Masker().mask_text(planted.text) + printed_in_pieces(Masker(), planted.text)
    assert [secret for secret in planted.secrets if secret in seen] == []


@pytest.mark.parametrize(
    "text",
    [
        "PASS: test_forward_1, FAIL: test_backward_2",
        "pass=3 fail=0 pwd=/home/work",
        "token classification with Qwen2Tokenizer42",
        "the secret is in secret_manager_2",
        "if tokens > 4096tokens",
        "api_key\nvalue: none",
        "name: lr\nvalue: 0.001abc",
        "password\n  Field required [type=missing, input_value={'lr': 1}, input_type=dict]",
        "user    tokens\nada     12345678a",
        "getpass('Password: ')",
        "primarykey: abcdefgh12 monkey -> donkey12345",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_ordinary_text_stays_readable(text):
    assert Masker().mask_text(text) == text
    assert printed_in_pieces(Masker(), text) == f"step 1\n{text}\nstep 2\n"


def test_a_secret_that_was_masked_is_not_looked_for_again():
    """What the masker keeps of a line that has ended holds masks in place of the secrets."""
    masker = OutputMasker(Masker())
    first, _ = masker.feed(b"password=k1aaabbbccc7\nnext ")
    second, corrections = masker.feed(b"line\n")
    assert b"k1aaabbbccc7" not in masker._plain
    assert first + second == b"password=[secret-1]**\nnext line\n" and not corrections


def test_a_key_goes_on_over_any_number_of_lines_and_pieces():
    lines = [f"{i:02}{'Ab1' * 20}" for i in range(30)]
    text = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    shown = printed_in_pieces(Masker(), text)
    assert [line for line in lines if line in shown] == []
