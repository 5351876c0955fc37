"""Where each crashed or stuck process was: native and Python frames, innermost first.

In: a recorded run. Out: a section for crashes and one for stalls, each absent when there was none.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.evidence import RecordedRun, faulting_frame, read_crashes, read_stalls, telling_stall
from rerail.platform.patterns import linear
from rerail.records import Crash, NativeFrame, ThreadStack
from rerail.report.document import Block, Listing, ListingLine, Paragraph, Section
from rerail.wording import file_name

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
    blamed = faulting_frame(crash)
    found: list[Block] = []
    for thread in crash.threads[:_MOST_THREADS]:
        lines = thread_lines(thread, blamed if thread.is_crashed else None)
        if lines:
            name = f"thread {thread.name or thread.thread_id}"
            caption = f"Crashed {name}" if thread.is_crashed else name.capitalize()
            found.append(Listing(lines, caption, is_folded=not thread.is_crashed))
    if crash.registers:
        rows = [f"{name:>6} {value:#018x}" for name, value in crash.registers.items()]
        found.append(Listing([ListingLine(row) for row in rows], "Registers", is_folded=True))
    return found


def thread_lines(thread: ThreadStack, blamed: NativeFrame | None = None) -> list[ListingLine]:
    lines = [
        ListingLine(f"#{i:<3}{_native(frame)}", is_marked=blamed is not None and frame is blamed)
        for i, frame in enumerate(thread.native[:_MOST_FRAMES])
    ]
    lines += _cut_short(thread.native)
    if thread.native and thread.python:
        lines.append(ListingLine("Python:"))
    lines += [
        ListingLine(f"    {frame.function}  {_short_path(frame.file)}:{frame.line}")
        for frame in thread.python[:_MOST_FRAMES]
    ]
    lines += _cut_short(thread.python)
    if thread.waits_for:
        lines.append(ListingLine(f"waits for {thread.waits_for}"))
    return lines


def _native(frame: NativeFrame) -> str:
    where = file_name(frame.library) if frame.library else "?"
    offset = f"+{frame.offset:#x}" if frame.offset is not None else ""
    return f"{frame.function or '(no symbol)'}  {where}{offset}"


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
            for position, thread in enumerate(threads[:_MOST_THREADS]):
                lines = thread_lines(thread)
                if lines:
                    name = f"Thread {thread.name or thread.thread_id} of pid {pid}"
                    blocks.append(Listing(lines, name, is_folded=position > 0))
    return Section("stall", "Where it stood still", blocks)
