"""What the terminal says of a stall: at most eight lines of 80 columns. Pure text.

In: the places of the processes, who holds the lock, and how the silence was. Out: lines. The first
says what stands still, where and why; then the processes that tell most; then CPU and pace.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from rerail.platform.os_text import printable
from rerail.recorder.stalls.places import Place, find_places, who_is_who
from rerail.records import LockHolder, ProcessRecord, PythonFrame, Stall, ThreadStack
from rerail.wording import duration_in_words, file_name, seconds_in_words, share_in_percent

WIDTH = 80 - len("rerail: ")
MOST_LINES = 7  # the last one of eight is for what is done about it
_MOST_PROCESSES = 3
_NO_BREAK = "\u00a0"


def stall_lines(
    stall: Stall, places: Sequence[Place], holders: Mapping[str, LockHolder]
) -> list[str]:
    lines = _wrapped(headline(stall, places, holders), 2)
    for place in places[:_MOST_PROCESSES]:
        lines.append(_cut(f"  {place.process}  {_stack(place)}"))
        holder = holders.get(place.key)
        if holder is not None and holder.thread != "the same thread":
            lines.append(_cut(f"  {holder.thread}  {_at(holder)}, holds the lock"))
    last = _cut("  " + _circumstances(stall))
    return [*lines[: MOST_LINES - 1], last]


def headline(stall: Stall, places: Sequence[Place], holders: Mapping[str, LockHolder]) -> str:
    silent = duration_in_words(stall.silent_seconds)
    place = places[0] if places else None
    if stall.kind == "busy":
        where = f" in {_where(place)}" if place is not None else ""
        does = "computes" if stall.is_computing else "reads or writes"
        return f"{does}{where} since {silent}; {_together('looks busy, not stuck')}"
    if place is None:
        return f"has stood still for {silent}; nobody's stack could be read"
    waits = f" waits for {_what(place, holders)}" if place.waits else " does not go on"
    return f"has stood still for {silent}: {_where(place)}{waits}"


def hung_in(place: Place, holders: Mapping[str, LockHolder]) -> str:
    """For the end of a sentence: "in hang.py:7 save(), waiting for a lock that …"."""
    waits = f", waiting for {_what(place, holders)}" if place.waits else ""
    text = f"in {_where(place)}{waits}".replace(_NO_BREAK, " ")
    return printable(text)[:300]


def place_of(records: Sequence[ProcessRecord], found: Mapping[str, Sequence[ThreadStack]]) -> str:
    """ "data.py:88 load_shard()": where these processes are; "" if nobody's stack could be read."""
    places = find_places(found, who_is_who(records, {}), 0)
    own = places[0].own if places else []
    return _at(own[0]).replace(_NO_BREAK, " ") if own else ""


def _what(place: Place, holders: Mapping[str, LockHolder]) -> str:
    assert place.waits is not None
    holder = holders.get(place.key)
    if holder is None:
        return place.waits.words
    if holder.thread == "the same thread":
        return f"a lock that it holds itself, since {_at(holder)}"
    return f"a lock that {holder.thread} holds in {_at(holder)}"


def _where(place: Place) -> str:
    who = "" if place.process == "main process" else f"{place.process} in "
    if place.own:
        return who + _at(place.own[0])
    functions = [frame.function for frame in place.thread.python[:1]]
    functions += [str(frame.function) for frame in place.thread.native[:4] if frame.function]
    return (who or "main process in ") + (f"{functions[0]}()" if functions else "native code")


def _at(frame: PythonFrame | LockHolder) -> str:
    return _together(f"{file_name(frame.file)}:{frame.line} {function_shown(frame.function)}")


def function_shown(function: str) -> str:
    name = function.replace("<locals>.", "")
    return name if name.startswith("<") else f"{name}()"


def _stack(place: Place) -> str:
    frames = [_at(frame) for frame in place.own] or [_where(place)]
    waits = f"; waits for {place.waits.words}" if place.waits else ""
    return " < ".join(frames) + waits


def _circumstances(stall: Stall) -> str:
    parts = []
    if stall.cpu_cores is not None:
        parts.append(f"CPU {share_in_percent(stall.cpu_cores)}")
    parts.append(f"no step and no output for {duration_in_words(stall.silent_seconds)}")
    if stall.pace_seconds is not None:
        parts.append(f"its own pace was a step every {_pace(stall.pace_seconds)}")
    return " · ".join(parts)


def _pace(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 1 else seconds_in_words(seconds)


def _wrapped(text: str, most: int) -> list[str]:
    lines = textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    if len(lines) > most:
        lines[most - 1 :] = [" ".join([lines[most - 1], *map(str.strip, lines[most:])])]
    return [_cut(line) for line in lines]


def _together(words: str) -> str:
    """Not to be torn apart at the end of a line."""
    return words.replace(" ", _NO_BREAK)


def _cut(line: str) -> str:
    line = printable(line.replace(_NO_BREAK, " "))
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
