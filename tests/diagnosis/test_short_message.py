"""A long message in the headline: how it begins and how it ends, for the remedy is at the end."""

from __future__ import annotations

import pytest

from rerail.diagnosis.short_message import MOST_MESSAGE, short_message
from rerail.wording import cut

COLUMNS = ", ".join(f"'column_{number}'" for number in range(40))
ENDS = {
    "the allowed values": (
        "You selected an invalid accelerator name: `accelerator='gpuu'`. It is neither registered"
        " by this package nor by one of the packages that were found beside it when it was"
        " imported. Use any of the following: auto, cpu, cuda, mps, tpu.",
        "Use any of the following: auto, cpu, cuda, mps, tpu",
    ),
    "the extra column": (
        f"feature_names mismatch: [{COLUMNS}] [{COLUMNS}, 'plan']\n"
        "training data did not have the following fields: plan",
        "training data did not have the following fields: plan",
    ),
    "the place in a file": (
        'mapping values are not allowed here\n  in "config.yaml", line 3, column 8',
        'in "config.yaml", line 3, column 8',
    ),
    "the name of the error": (
        "The server socket has failed to listen on any local network address. port: 29500,"
        " useIPv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "name: EADDRINUSE, message: address already in use",
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_the_end_of_a_message_is_kept(what: str) -> None:
    message, end = ENDS[what]
    said = short_message(message)
    assert said.endswith(end)
    assert said[:30] == message[:30]
    assert len(said) <= MOST_MESSAGE


def test_lines_that_every_such_error_has_are_left_out() -> None:
    said = short_message(
        "CUDA error: device-side assert triggered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    )
    assert said == "CUDA error: device-side assert triggered"


def test_a_line_of_keys_and_values_is_its_message() -> None:
    line = 'ts=2026-11-19T21:31:10Z event=error msg="no rows left after filtering by min=3"'
    assert short_message(line) == "no rows left after filtering by min=3"
    assert short_message('ts=1 msg="short"') == 'ts=1 msg="short"'


@pytest.mark.parametrize("most", [1, 8, 24, 40, 79, 80, 200])
def test_what_is_cut_fits_and_keeps_both_ends(most: int) -> None:
    text = "it begins here " + "word " * 50 + "[" + "item, " * 50 + "] and it ends there"
    said = cut(text, most)
    assert len(said) <= most
    assert "…" in said
    if most >= 40:
        assert said.startswith("it begins")
        assert said.endswith("there")


def test_a_text_that_fits_stays() -> None:
    assert cut("short", 5) == "short"
