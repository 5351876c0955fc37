"""A fault that left no crash record: what the kernel's log and the black box still say."""

from __future__ import annotations

from typing import Any

import pytest
from run_builders import box, crash, process, recorded

from rerail.evidence.run.unrecorded import read_unrecorded_crashes
from rerail.records import AfterDeath

DEAD = process(signal="SIGSEGV")
OVERFLOW = "[1.0] {name}[{pid}]: segfault at 7f1062001e57 ip 55e8 sp 7f1062001e50 error 6 in ov[11]"
STRAY = "[1.0] python[100]: segfault at 10 ip 55e8 sp 7f1062001e50 error 6 in ov[11]"


def test_a_handler_that_could_not_run_is_told_with_both_reasons() -> None:
    (seen,) = read_unrecorded_crashes(recorded(processes=[DEAD], boxes=[box()]))
    assert seen.kind == "crash-unrecorded" and seen.data["signal"] == "SIGSEGV"
    assert "no stack left" in seen.text and "blocked" in seen.text


@pytest.mark.parametrize(
    "parts",
    [
        {"boxes": []},
        {"boxes": [box(handler_installed=False)]},
        {"boxes": [box(handler_ran=True)]},  # the disk was full
        {"boxes": [box(said_goodbye=True)]},
        {"boxes": [box()], "crashes": [crash()]},
        {"boxes": [box()], "processes": [process(signal="SIGKILL")]},
    ],
)
def test_nothing_is_said_where_something_else_explains_it(parts: dict[str, Any]) -> None:
    assert read_unrecorded_crashes(recorded(**{"processes": [DEAD], **parts})) == []


@pytest.mark.parametrize(
    ("line", "is_overflow"),
    [
        (OVERFLOW.format(name="python", pid=100), True),
        (OVERFLOW.format(name="python", pid=101), True),  # a thread has a number of its own
        (STRAY, False),
    ],
)
def test_the_kernel_tells_a_stack_overflow_from_a_stray_pointer(
    line: str, is_overflow: bool
) -> None:
    (seen,) = read_unrecorded_crashes(
        recorded(processes=[DEAD], boxes=[], after=AfterDeath(kernel_lines=[line]))
    )
    assert seen.kind == "kernel-line" and seen.data["is_stack_overflow"] is is_overflow


def test_the_kernel_s_line_on_another_program_is_not_taken() -> None:
    line = OVERFLOW.format(name="firefox", pid=4242)
    after = AfterDeath(kernel_lines=[line])
    assert read_unrecorded_crashes(recorded(processes=[DEAD], boxes=[], after=after)) == []
