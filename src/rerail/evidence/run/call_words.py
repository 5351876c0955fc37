"""A collective, its place and the ranks in it, as a person would say them."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.records import CollectiveCall, PythonFrame
from rerail.wording import counted, file_name, listed

MOST_NAMED = 8


def call_in_words(call: CollectiveCall, other: CollectiveCall | None = None) -> str:
    """ "all_reduce #1,204"; with the shape, if that is what differs."""
    op = "the reduction of gradients" if call.op == "gradients" else call.op
    text = f"{op} #{call.sequence:,}"
    if other is not None and call.op == other.op and call.shape != other.shape:
        text += f" of {_shape(call)} instead of {_shape(other)}"
    return text


def _shape(call: CollectiveCall) -> str:
    return "x".join(str(side) for side in call.shape) or "one number"


def frame_in_words(frame: PythonFrame) -> str:
    return f"{file_name(frame.file)}:{frame.line} {frame.function}"


def place_in(frame: PythonFrame | None) -> str:
    return f" in {frame_in_words(frame)}" if frame else ""


def ranks_in_words(ranks: Sequence[int]) -> str:
    numbers = [str(rank) for rank in ranks[:MOST_NAMED]]
    if len(ranks) > MOST_NAMED:
        numbers.append(counted(len(ranks) - MOST_NAMED, "other"))
    return f"rank{'s' if len(ranks) > 1 else ''} {listed(numbers)}"
