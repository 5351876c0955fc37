"""Does a loop over batches come again? Asked from inside it, of real functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rerail

STUB = Path(rerail.__file__).parent / "preflight" / "memory" / "stub" / "rerail_next_epoch.py"


class Batches:
    def __init__(self, is_in_a_loop: Callable[[object], bool]) -> None:
        self._is_in_a_loop = is_in_a_loop
        self.answers: list[bool] = []

    def __iter__(self) -> Iterator[int]:
        self.answers.append(self._is_in_a_loop(sys._getframe(1)))
        return iter([1, 2])


def once(batches: Batches) -> None:
    with STUB.open():
        pass
    try:
        len("before")
    except OSError:
        pass
    for _ in batches:
        for _ in range(2):
            pass
    while len(batches.answers) > 5:
        pass


def counted(batches: Batches) -> None:
    for _, _ in enumerate(batches):
        pass


def epochs(batches: Batches) -> None:
    for _ in range(1):
        for _ in batches:
            pass


def until_done(batches: Batches) -> None:
    is_done = False
    while not is_done:
        for _ in batches:
            is_done = True


def called_in_a_loop(batches: Batches) -> None:
    for _ in range(1):
        once(batches)


def tried_again_only_after_a_failure(batches: Batches) -> None:
    while True:
        try:
            once(batches)
            break
        except MemoryError:
            continue


def run(function: Callable[[Batches], None]) -> bool:
    """In a frame of its own: a test is called from loops of pytest's."""
    spec = importlib.util.spec_from_file_location("rerail_next_epoch", STUB)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def within_this_file(frame: object) -> bool:
        """As if the program began with the function."""
        found = False
        while frame.f_code is not run.__code__:  # type: ignore[attr-defined]
            found = found or module._leads_back(
                frame.f_code,  # type: ignore[attr-defined]
                frame.f_lasti,  # type: ignore[attr-defined]
            )
            frame = frame.f_back  # type: ignore[attr-defined]
        return found

    batches = Batches(within_this_file)
    function(batches)
    return batches.answers[0]


@pytest.mark.parametrize("function", [once, counted, tried_again_only_after_a_failure])
def test_a_loop_that_nothing_goes_around_is_run_through_once(
    function: Callable[[Batches], None],
) -> None:
    assert not run(function)


@pytest.mark.parametrize("function", [epochs, until_done, called_in_a_loop])
def test_a_loop_inside_another_comes_again(function: Callable[[Batches], None]) -> None:
    assert run(function)
