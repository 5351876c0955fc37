"""Reads `agent/*.crash`: the text that the handler of fatal signals wrote, as a records.Crash.

Comes in: a file that may be empty (no crash), cut off anywhere (the process was killed while
writing, the disk was full) or followed by a second record (a previous handler crashed in its
turn, or the program survived). Goes out: the Crash that ended the process, unsymbolised, or None.
Promises: never raises for content; what follows a tear is missing, and `is_complete` says so.

Every native frame but the first is a return address minus one, so that it lies inside the call
and a function that ends in a call is not taken for its neighbour. `offset` is the offset in the
library's file; `address - base` is its address as the ELF tables have it.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from rerail.platform.patterns import linear
from rerail.records import (
    Crash,
    FaultMapping,
    MappedLibrary,
    NativeFrame,
    PythonFrame,
    ThreadStack,
)
from rerail.store.bounds import CRASH_TEXT_BYTES
from rerail.store.regular_files import open_regular

# A second record this soon after the first is its echo; later, the program had survived the first.
ECHO_NS = 10_000_000_000

# The kernel lets the main thread's stack grow by whole pages; one frame reaches this far at most.
_BELOW_MAIN_STACK = 1 << 20
_AGENT_LIBRARY = "/rerail/agent/native.abi3.so"
_MAP_LINE = linear(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) (\S{4}) ([0-9a-f]{1,16}) [0-9a-f]+:[0-9a-f]+ \d+\s*(.*)"
)
_PYTHON_THREAD = linear(
    r"Stack \(most recent|Current thread 0x"
    r"|Thread 0x(?P<other>[0-9a-f]{1,16})(?: \[(?P<name>.*)\])?"
)
_PYTHON_FRAME = linear(r'  File "(.*)", line (\d{1,10}|\?\?\?) in (.*)')


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    permissions: str
    offset: int
    path: str


@dataclass
class _Block:
    """One record as it stands in the file."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    mappings: list[_Mapping] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    python: list[str] = field(default_factory=list)
    has_ended: bool = False
    was_survived: bool = False

    def number(self, name: str, position: int = 0) -> int | None:
        values = self.fields.get(name, [])
        return _number(values[position]) if position < len(values) else None


def read_crash(path: Path, t0_ns: int) -> Crash | None:
    """The crash in `path`, or None if there was none; `t0_ns` as in read_box."""
    try:
        with open_regular(path) as file:
            text = file.read(CRASH_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    text = text[: text.rfind("\n") + 1]  # a line that was begun is not a line
    block = _one_that_ended_it(_blocks(text))
    if block is None or len(block.fields.get("signal", [])) < 2:
        return None
    return _crash_of(block, path, t0_ns)


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    section = ""
    for line in text.split("\n"):
        if line == "rerail-crash 1":
            blocks.append(_Block())
            section = ""
            continue
        if not blocks:
            continue
        block = blocks[-1]
        if line == "survived":
            block.was_survived = True
        elif block.has_ended:
            continue  # what a cut map has left behind
        elif line == "end":
            block.has_ended = True
        elif section == "" and line in ("maps", "frames", "python"):
            section = line
        elif line == "end-" + section:
            section = ""
        elif section == "maps":
            _read_mapping(block, line)
        elif section == "python":
            block.python.append(line)
        else:
            _read_field(block, line)
    return blocks


def _read_mapping(block: _Block, line: str) -> None:
    match = _MAP_LINE.fullmatch(line)
    if match:
        start, end, permissions, offset, path = match.groups()
        block.mappings.append(
            _Mapping(int(start, 16), int(end, 16), permissions, int(offset, 16), path)
        )


def _read_field(block: _Block, line: str) -> None:
    word, _, rest = line.partition(" ")
    parts = rest.split()
    if word == "register" and len(parts) == 2:
        value = _number(parts[1])
        if value is not None:
            block.registers[parts[0]] = value
    elif word == "frame" and len(parts) == 1:
        value = _number(parts[0])
        if value is not None:
            block.frames.append(value)
    elif word in ("thread", "message"):
        block.fields.setdefault(word, [rest.strip()])
    elif parts:
        block.fields.setdefault(word, parts)


def _number(text: str) -> int | None:
    try:
        value = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None
    return value if -(2**63) <= value < 2**64 else None


def _one_that_ended_it(blocks: list[_Block]) -> _Block | None:
    """The first of the last burst: what happened first beats its echo."""
    chosen: _Block | None = None
    for block in blocks:
        if chosen is None or chosen.was_survived:
            chosen = block
            continue
        earlier, later = chosen.number("time"), block.number("time")
        if earlier is not None and later is not None and later - earlier > ECHO_NS:
            chosen = block
    return chosen


def _crash_of(block: _Block, path: Path, t0_ns: int) -> Crash:
    pid_text, _, start_text = path.name.partition(".")[0].partition("-")
    pid = block.number("pid") or _number(pid_text) or 0
    thread_id = block.number("tid") or pid
    time_ns = block.number("time")
    names = block.fields
    thread_name = (names.get("thread") or [""])[0] or None
    code = names.get("code", [])
    stack = block.fields.get("stack", [])
    low, high = (block.number("stack", i) for i in (0, 1))
    bounds = (low, high) if len(stack) == 2 and low is not None and high is not None else None
    return Crash(
        pid=pid,
        start_ticks=_number(start_text) or 0,
        thread_id=thread_id,
        thread_name=thread_name,
        is_main_thread=block.number("main") == 1 if "main" in names else thread_id == pid,
        signal=names["signal"][1],
        code=code[1] if len(code) > 1 else (code[0] if code else None),
        address=block.number("address"),
        sender_pid=block.number("sender"),
        t_seconds=None if time_ns is None else round((time_ns - t0_ns) / 1e9, 3),
        registers=block.registers,
        threads=_threads(block, thread_id, thread_name),
        libraries=_libraries(block.mappings),
        message=(names.get("message") or [""])[0] or None,
        stack_bounds=bounds or _bounds_from_map(block),
        frame_total=block.number("frame-total"),
        fault_mapping=_fault_mapping(block),
        is_complete=block.has_ended,
        was_survived=block.was_survived,
    )


def _fault_mapping(block: _Block) -> FaultMapping | None:
    """The mapped file that the fault address lies in, with its size after the death."""
    address = block.number("address")
    for mapping in block.mappings:
        if address is not None and mapping.start <= address < mapping.end:
            if not mapping.path.startswith("/"):
                return None
            size = None
            with contextlib.suppress(OSError, ValueError):
                size = Path(mapping.path).stat().st_size
            return FaultMapping(mapping.path, mapping.start, mapping.end, mapping.offset, size)
    return None


def _bounds_from_map(block: _Block) -> tuple[int, int] | None:
    """Return the mapping that the stack pointer of a thread without a note lies in.

    A thread has no note if its start was not altered, or if it had an alternate stack of its own.
    The main thread's stack has a name in the map; when it overflows, the pointer lies just below.
    """
    pointer = block.registers.get("rsp", block.registers.get("sp"))
    if pointer is None:
        return None
    for mapping in block.mappings:
        below = _BELOW_MAIN_STACK if mapping.path == "[stack]" else 0
        if mapping.start - below <= pointer < mapping.end and "w" in mapping.permissions:
            return mapping.start, mapping.end
    return None


def _libraries(mappings: list[_Mapping]) -> list[MappedLibrary]:
    """Every file with code in it, once, with the address of its beginning."""
    bases: dict[str, int] = {}
    with_code: set[str] = set()
    for mapping in mappings:
        if mapping.path.startswith("/"):
            if mapping.offset == 0:
                bases.setdefault(mapping.path, mapping.start)
            if "x" in mapping.permissions:
                with_code.add(mapping.path)
    order = dict.fromkeys(m.path for m in mappings if m.path in with_code)
    return [MappedLibrary(path=path, base=bases.get(path)) for path in order]


def _native_frames(block: _Block) -> list[NativeFrame]:
    mappings = sorted(block.mappings, key=lambda mapping: mapping.start)
    starts = [mapping.start for mapping in mappings]
    frames = []
    for position, recorded in enumerate(block.frames):
        address = recorded if position == 0 else max(recorded - 1, 0)
        at = bisect.bisect_right(starts, address) - 1
        inside = mappings[at] if at >= 0 and address < mappings[at].end else None
        if position > 0 and inside is not None and inside.path.endswith(_AGENT_LIBRARY):
            continue  # the agent's frameless wrapper round a function of the program
        if inside is not None and inside.path:
            offset = address - inside.start + inside.offset
            frames.append(NativeFrame(address, inside.path, offset))
        else:
            frames.append(NativeFrame(address))
    return frames


def _threads(block: _Block, thread_id: int, thread_name: str | None) -> list[ThreadStack]:
    """The crashed thread first. Python names threads by their pthread address, not their id.

    The crashed thread's frames stand there twice, alone and among all the threads'; the first is
    the one to trust, since the second may have been broken off.
    """
    stacks: list[tuple[re.Match[str], list[PythonFrame]]] = []
    for line in block.python:
        thread = _PYTHON_THREAD.match(line)
        frame = _PYTHON_FRAME.fullmatch(line)
        if thread:
            stacks.append((thread, []))
        elif frame and stacks:
            number = frame.group(2)
            stacks[-1][1].append(
                PythonFrame(frame.group(1), int(number) if number.isdigit() else 0, frame.group(3))
            )
    of_crashed = [frames for thread, frames in stacks if thread["other"] is None]
    others = [
        ThreadStack(int(thread["other"], 16), name=thread["name"], python=frames)
        for thread, frames in stacks
        if thread["other"] is not None
    ]
    crashed = ThreadStack(
        thread_id,
        name=thread_name,
        native=_native_frames(block),
        python=next(filter(None, of_crashed), []),
        is_crashed=True,
    )
    return [crashed, *others]
