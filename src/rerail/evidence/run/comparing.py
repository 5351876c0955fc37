"""Compares what the processes recorded with what was printed.

In: the observations of a run and those of its output. Out: deaths that the output explains, and
the output's observations without the echoes of those who failed later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rerail.catalogue import load_catalogue
from rerail.evidence.first.before import failed_before
from rerail.evidence.run.exceptions import is_of_a_lost_message
from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import BlackBox, Observation

# What a parent says of a child that is gone: not the child's own words.
_OF_A_CHILD = linear(r"[Ww]orker|subprocess|[Pp]rocess(?:es)? (?:died|exited|terminated|was)")


def with_printed_reasons(
    recorded: Sequence[Observation], printed: Sequence[Observation]
) -> list[Observation]:
    """Mark each child that ended with 1, as Python does after a traceback, if one was printed."""
    said_why = any(
        o.kind == "traceback"
        and o.data.get("type")
        and not (o.data.get("is_echo") or o.data.get("was_handled") or o.data.get("is_lone"))
        and not _OF_A_CHILD.search(o.data.get("message", ""))
        for o in printed
    )
    return [
        replace(o, data={**o.data, "said_why": said_why})
        if o.kind == "death" and o.data.get("exit_code") == 1 and not o.data.get("is_main")
        else o
        for o in recorded
    ]


def without_echoes(
    run: RecordedRun, first: Observation | None, printed: Sequence[Observation]
) -> list[Observation]:
    """Who failed first is known better from the processes' ends than from the order of lines.

    What the output shows of an exception of those who failed after it is their echo, and so is
    what they say of a signal that ended them: the launcher sent it, when the first one had failed.
    """
    others = set(first.data.get("others") or ()) if first is not None else set()
    echoes = {
        _in_one_line(box.exception_type, box.exception_text)
        for box in run.boxes
        if box.exception_type and _is_echo(run, box, others, printed, first)
    }
    if not echoes and first is None:
        return list(printed)
    echoed = {
        o.source
        for o in printed
        if o.kind == "traceback"
        and _in_one_line(o.data.get("type"), o.data.get("message")) in echoes
    }
    echoed |= {
        o.source
        for o in printed
        if o.kind == "line"
        and o.data.get("stream") in others
        and load_catalogue().policy_of(o.data.get("cause")).is_from_outside
    }
    left_out = "failed-first" if first is not None else ""  # the record knows it better
    return [o for o in printed if o.kind != left_out and o.source not in echoed]


def _is_echo(
    run: RecordedRun,
    box: BlackBox,
    others: set[str],
    printed: Sequence[Observation],
    first: Observation | None,
) -> bool:
    if first is not None and (f"rank {box.rank}" in others or is_of_a_lost_message(box)):
        return True
    return failed_before(run, box, printed) is not None


def _in_one_line(kind: str | None, message: str | None) -> tuple[str, str]:
    """An exception's type and the first line of its message, to know it again."""
    return (kind or "").rpartition(".")[2], (message or "").strip().partition("\n")[0]
