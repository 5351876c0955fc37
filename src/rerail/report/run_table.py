"""The rows of `rerail runs` and of `rerail watch`, in as many columns as the terminal has.

In: entries, their short ids, a width. Out: lines of rich text, none longer than the width. What
came of a run gets what the other columns leave; its headline, where that fits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rerail.report.run_list import NOT_WELL, Entry
from rerail.wording import counted, cut, seconds_in_words

if TYPE_CHECKING:
    from rich.text import Text

_MARKS = {"live": "●", "stuck": "!", "failed": "✗", "swallowed": "!", "ok": "✓", "folded": "▸"}
_PLAIN_MARKS = {
    "live": "*",
    "stuck": "!",
    "failed": "x",
    "swallowed": "!",
    "ok": "+",
    "folded": ">",
}
_COLOURS = {
    "live": "cyan",
    "stuck": "bold red",
    "failed": "red",
    "swallowed": "yellow",
    "ok": "green",
}
_LEAST_NAME = 16
_ROOM_FOR_HEADLINE = 60
_LEAST_COMMAND = 12
SHORTEST_KEY = 4  # of an id that is to be typed
BY_A_BEGINNING = ("isolate", "verify", "study")  # groups that the beginning of their key names
_OWN_RUNS = ("run", "restarts")  # of the user's own, not made by an experiment


def rows(
    entries: Sequence[Entry], short: Mapping[str, str], width: int, now: float, unfolds: bool
) -> Iterator[Text]:
    from rich.text import Text

    marks = _MARKS if _can_show("●✗✓▸") else _PLAIN_MARKS
    yield Text(_summary(entries), style="bold", no_wrap=True)
    lines = [(entry, 0) for entry in entries]
    if unfolds:
        lines = [
            line for entry in entries for line in [(entry, 0), *((m, 1) for m in entry.members)]
        ]
    longest_name = max(_LEAST_NAME, width // 4)
    cells = [_cells(entry, depth, short, now, longest_name) for entry, depth in lines]
    has_steps = any(row[3] for row in cells)
    cells.insert(0, ("run", "lasted", "ago", "step" if has_steps else "", "id"))
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    # The mark, and a space between columns; a column of nothing takes no room.
    room = width - 2 - sum(w + 1 for w in widths if w)
    header = _header(widths, room)
    header.truncate(width)
    yield header
    for (entry, _), (name, lasted, ago_, step, name_id) in zip(lines, cells[1:], strict=True):
        line = Text(no_wrap=True)
        is_folded = bool(entry.members) and not unfolds and entry.kind != "restarts"
        is_over = entry.state in ("ok", *NOT_WELL)
        mark = marks["folded" if is_folded and is_over else entry.state]
        line.append(f"{mark} ", style=_COLOURS[entry.state])
        line.append(f"{name:<{widths[0]}} ")
        line.append(f"{lasted:>{widths[1]}} {ago_:>{widths[2]}} ", style="dim")
        if widths[3]:
            line.append(f"{step:>{widths[3]}} ")
        words = Text(_words(entry, room), no_wrap=True)
        words.truncate(max(room, 1), overflow="ellipsis", pad=True)
        line.append_text(words)
        line.append(f" {name_id:>{widths[4]}}", style="dim")
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
        yield line


def _header(widths: Sequence[int], room: int) -> Text:
    from rich.text import Text

    line = f"  {'run':<{widths[0]}} {'lasted':>{widths[1]}} {'ago':>{widths[2]}} "
    line += f"{'step':>{widths[3]}} " if widths[3] else ""
    text = Text(f"{line}{'what came of it':<{max(room, 1)}}", "dim", no_wrap=True)
    text.truncate(len(line) + max(room, 1))
    text.append(f" {'id':>{widths[4]}}")
    return text


def _can_show(characters: str) -> bool:
    stream = sys.__stdout__ or sys.stdout  # while a screen is drawn, the other is a stand-in
    try:
        characters.encode(stream.encoding or "ascii")
        return True
    except (UnicodeEncodeError, LookupError):
        return False


def _summary(entries: Sequence[Entry]) -> str:
    leaves = [leaf for entry in entries for leaf in entry.members or (entry,)]
    live = sum(leaf.state in ("live", "stuck") for leaf in leaves)
    # A trial that failed as it was expected to is no run that died.
    failed = sum(entry.state in NOT_WELL for entry in entries if entry.kind in _OWN_RUNS)
    failed += sum(m.state in NOT_WELL for e in entries if e.kind == "study" for m in e.members)
    parts = [counted(len(leaves), "run")]
    parts += [f"{live} live"] if live else []
    parts += [f"{failed} failed"] if failed else []
    return " · ".join(parts)


def _cells(
    entry: Entry, depth: int, short: Mapping[str, str], now: float, longest_name: int
) -> tuple[str, str, str, str, str]:
    name = cut("  " * depth + entry.name, longest_name)
    lasted = entry.elapsed_seconds
    return (
        name,
        "" if lasted is None else seconds_in_words(lasted),
        ago(now - entry.started_unix),
        "" if entry.step is None else f"{entry.step:,}",
        short.get(entry.id, entry.id),
    )


def _words(entry: Entry, room: int) -> str:
    headline = entry.headline.rstrip(".")
    if headline and (len(headline) <= room or room >= _ROOM_FOR_HEADLINE):
        return headline
    words = entry.words
    is_labelled = bool(entry.program) and entry.kind == "run" and entry.name != entry.program
    if is_labelled and room - len(words) >= _LEAST_COMMAND:
        words += f" · {entry.program}"
    return words


def ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def short_ids(runs: Sequence[str], entries: Sequence[Entry]) -> dict[str, str]:
    """What is enough to type: the four digits of a run, the beginning of an investigation's key."""
    ends: dict[str, int] = {}
    for run in runs:
        end = run.rpartition("-")[2]
        ends[end] = ends.get(end, 0) + 1
    starts = {run[:SHORTEST_KEY] for run in runs}  # which would be taken for a beginning
    short = {}
    for run in runs:
        end = run.rpartition("-")[2]
        is_enough = len(end) == SHORTEST_KEY and ends[end] == 1 and end not in starts
        short[run] = end if is_enough else run
    keys = [entry.id for entry in entries if entry.kind in BY_A_BEGINNING]
    for key in keys:
        length = SHORTEST_KEY
        while length < len(key) and (
            key[:length] in ends or sum(k.startswith(key[:length]) for k in keys) > 1
        ):
            length += 1
        short[key] = key[:length]
    return short
