"""Where each crashed or stuck process was: Python frames, and native ones behind a fold.

In: a recorded run. Out: a section for crashes and one for stalls, each absent when there was none.
The user's own frames are marked, and a process that is in the user's own code comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.evidence import RecordedRun, faulting_frame, read_crashes, read_stalls, telling_stall
from rerail.platform.own_code import innermost_own, is_own
from rerail.platform.patterns import linear
from rerail.records import Crash, NativeFrame, ThreadStack
from rerail.report.document import Block, Listing, ListingLine, Paragraph, Section
from rerail.wording import file_name, symbol_in_words

_MOST_FRAMES = 60
_INSTALLED = linear(r".*/(?:(?:site|dist)-packages|lib/python[\d.]+)/")
_MOST_THREADS = 24
_MOST_CRASHES = 8
_MOST_STUCK = 12


def crash_section(run: RecordedRun) -> Section | None:
    if not run.crashes:
        return None
    crashes = sorted(run.crashes, key=lambda c: (c.t_seconds is None, c.t_seconds or 0.0))
    told = {o.source: o.text for o in read_crashes(run) if o.kind == "crash"}
    blocks: list[Block] = []
    for crash in crashes[:_MOST_CRASHES]:
        text = told.get(
            f"stack:{crash.pid}:{crash.thread_id}", f"{crash.signal} in pid {crash.pid}."
        )
        blocks.append(Paragraph(text))
        blocks += _crash_listings(crash)
    if len(crashes) > _MOST_CRASHES:
        blocks.append(
            Paragraph(f"{len(crashes) - _MOST_CRASHES} more crashes are in the run folder.")
        )
    return Section("crash", "Where it crashed", blocks)


def _crash_listings(crash: Crash) -> list[Block]:
    """The thread that crashed first."""
    blamed = faulting_frame(crash)
    found: list[Block] = []
    for thread in sorted(crash.threads[:_MOST_THREADS], key=lambda t: not t.is_crashed):
        name = f"thread {thread.name or thread.thread_id}"
        name = f"Crashed {name}" if thread.is_crashed else name.capitalize()
        found += thread_listings(thread, name, blamed, is_folded=not thread.is_crashed)
    if crash.registers:
        rows = [f"{name:>6} {value:#018x}" for name, value in crash.registers.items()]
        found.append(Listing([ListingLine(row) for row in rows], "Registers", is_folded=True))
    return found


def thread_listings(
    thread: ThreadStack, name: str, blamed: NativeFrame | None = None, *, is_folded: bool = False
) -> list[Block]:
    """Its Python stack, then its native one: folded, unless there is nothing else to see."""
    found: list[Block] = []
    python = _python_lines(thread)
    if python:
        found.append(Listing(python, f"{name}: Python", is_folded))
    native = [
        ListingLine(f"#{i:<3}{_native(frame)}", is_marked=blamed is not None and frame is blamed)
        for i, frame in enumerate(thread.native[:_MOST_FRAMES])
    ]
    native += _cut_short(thread.native)
    if native:
        found.append(Listing(native, f"{name}: native", is_folded or bool(thread.python)))
    return found


def _python_lines(thread: ThreadStack) -> list[ListingLine]:
    lines = []
    for frame in thread.python[:_MOST_FRAMES]:
        own = is_own(frame.file)
        mark = "   <- your code" if own else ""
        place = f"{frame.function}  {_short_path(frame.file)}:{frame.line}"
        lines.append(ListingLine(place + mark, is_own=own))
    lines += _cut_short(thread.python)
    if thread.waits_for:
        lines.append(ListingLine(f"waits for {thread.waits_for}"))
    return lines


def _native(frame: NativeFrame) -> str:
    where = file_name(frame.library) if frame.library else "?"
    offset = f"+{frame.offset:#x}" if frame.offset is not None else ""
    name = symbol_in_words(frame.function) if frame.function else "(no symbol)"
    return f"{name}  {where}{offset}"


def _short_path(path: str) -> str:
    """A module's file from its package on: where it is installed is in the environment section."""
    found = _INSTALLED.search(path)
    return path[found.end() :] if found else path


def _cut_short(frames: Sequence[object]) -> list[ListingLine]:
    more = len(frames) - _MOST_FRAMES
    return [ListingLine(f"… {more} more frames")] if more > 0 else []


def stall_section(run: RecordedRun) -> Section | None:
    stall = telling_stall(run)
    if stall is None:
        return None
    blocks: list[Block] = []
    for observation in read_stalls(run)[:_MOST_STUCK]:
        pid = observation.data["pid"]
        blocks.append(Paragraph(observation.text))
        for key, threads in stall.stacks.items():
            if key.partition("-")[0] != str(pid):
                continue
            shown = sorted(threads[:_MOST_THREADS], key=lambda thread: not _is_in_own_code(thread))
            for position, thread in enumerate(shown):
                name = f"Thread {thread.name or thread.thread_id} of pid {pid}"
                is_folded = position > 0 and not _is_in_own_code(thread)
                blocks += thread_listings(thread, name, is_folded=is_folded)
    return Section("stall", "Where it stood still", blocks)


def _is_in_own_code(thread: ThreadStack) -> bool:
    return innermost_own(thread.python) is not None
