"""Native stacks as debuggers, crash reports and runtimes print them into a log.

In: clean lines. Out: `NativeStack`s: frames innermost first as (library, function), which tool
wrote them, and whether the same function repeats so often that the stack must have run out.
Also the dumps of faulthandler and py-spy, which give Python frames instead, and with them where in
the program's own code each thread was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rerail.evidence.text.lines import Line
from rerail.platform.own_code import is_own
from rerail.platform.patterns import linear
from rerail.platform.wordings import wordings

_GDB = linear(
    r"\s*#(?P<n>\d{1,9})\s+(?:0x[0-9a-f]+ (?:in )?)?(?P<function>[^\s(]+(?: \([^)]*\))?[^\s(]*)?.*?"
    r"(?:(?:\bfrom |\bat |\()(?P<library>[^\s()+:]+\.(?:so[\d.]*|dylib|dll))|$)"
)
_FROM = linear(r"\s+from (?P<library>\S+\.(?:so[\d.]*|dylib))")
_LLDB = linear(
    r"\s*(?:\* )?(?:frame )?#(?P<n>\d{1,9}):? +(?:0x[0-9a-f]+ )?(?P<library>[\w.+-]+)`"
    r"(?P<function>[^\n]+?)(?: \+ \d+)?$"
)
_GLIBC = linear(
    r"(?P<library>/?[^\s(]+)\((?P<function>[^)+]*)(?:\+0x[0-9a-f]+)?\) ?\[0x[0-9a-f]+\]"
)
_APPLE = linear(r"\d+\s+(?P<library>[\w.+-]+)\s+0x[0-9a-f]{8,} (?P<function>\S.*?)(?: \+ \d+)?$")
_WORDINGS = wordings("native_stacks")
_JULIA_AT = _WORDINGS["julia-place"]
_JULIA = linear(
    r"(?P<function>[^\s()]{1,200}) at (?P<library>\S+?\.(?:so[\d.]*|dylib|dll)) \(unknown line\)"
    r"|unknown function \(ip: (?:0x)?[0-9a-f]+\)"
)
_FAULTHANDLER = _WORDINGS["faulthandler-dump"]
_PY_FRAME = linear(r"\s+File \"(?P<file>[^\"]+)\", line (?P<line>\d+),? in (?P<function>\S+)")
_FATAL = _WORDINGS["fatal-error"]
_PYSPY = _WORDINGS["py-spy-dump"]
_PYSPY_FRAME = linear(r"\s+(?P<function>[\w<>.]+) \((?P<file>[^()]+):(?P<line>\d+)\)")
_PLUMBING = _WORDINGS["plumbing"]
_WAITS = _WORDINGS["waits"]
_PYTHON_DUMPS = ("faulthandler", "py-spy")
REPEATS = 25  # the same function this often in what was pasted: a recursion
DEEP = 400  # a frame of this number: a recursion, however little of it was pasted
MOST_STACKS = 20  # the first of a log
MOST_FRAMES = 1000  # kept of a stack, the innermost


@dataclass
class NativeStack:
    first: Line
    tool: str  # debugger, glibc, crash-report, faulthandler, py-spy, julia
    frames: list[tuple[str, str]] = field(default_factory=list)
    fatal: str = ""
    deepest: int = 0  # the highest frame number
    is_of_crash: bool = False  # faulthandler: the thread in which the fatal error happened
    is_of_main: bool = False  # py-spy: the main thread
    where: dict[str, Any] | None = None  # the innermost Python frame of the program's own code

    @property
    def library(self) -> str:
        """The innermost library that is not the C library or a signal trampoline."""
        for library, _ in self.frames:
            name = library.rpartition("/")[2]
            if name and not _PLUMBING.match(name):
                return name
        return ""

    @property
    def is_waiting(self) -> bool:
        """A debugger that was attached to a process which stands still: no crash."""
        return self.tool == "debugger" and any(
            _WAITS.search(function) for _, function in self.frames[:2]
        )

    @property
    def is_recursion(self) -> bool:
        if self.deepest >= DEEP:
            return True
        counts = Counter(function for _, function in self.frames if function not in ("", "??"))
        return bool(counts) and counts.most_common(1)[0][1] >= REPEATS


class _Frame(NamedTuple):
    tool: str
    library: str
    function: str
    number: int = 0
    place: tuple[str, int, str] | None = None  # of a Python frame: file, line, function


def find_native_stacks(lines: Sequence[Line]) -> list[NativeStack]:
    """The first stacks of a log, MOST_STACKS at most."""
    found: list[NativeStack] = []
    fatal = ""
    current: NativeStack | None = None
    quiet = 0
    before = text = ""
    for line in lines:
        before, text = text, line.text.strip() if line.text[:3] == "in " else line.text
        if "atal " in text and (match := _FATAL.search(text)):
            fatal = (match.group("fatal") or match.group("windows")).strip()
        dump_of = _dump_begins(text)
        frame = None if dump_of else _frame(text, current)
        tool = dump_of or (frame.tool if frame else None)
        if tool is None:
            if current and current.frames and "from " in text and (extra := _FROM.match(text)):
                current.frames[-1] = (extra.group("library"), current.frames[-1][1])
                continue
            quiet += 1
            if quiet > 3:
                current = None
            continue
        quiet = 0
        if dump_of or current is None or (current.tool != tool and current.frames):
            found = _telling(found)
            if len(found) == MOST_STACKS:
                break
            current = NativeStack(
                line,
                tool,
                fatal=fatal,
                is_of_crash=_is_of_crash(text),
                is_of_main=tool == "py-spy" and '"MainThread"' in text,
            )
            if dump_of == "julia" and (at := _JULIA_AT.match(text)):
                current.fatal, current.is_of_crash = before, True
                current.where = {"file": at["file"], "line": int(at["line"]), "function": ""}
            found.append(current)
        if frame:
            if current.where is None and frame.place:
                current.where = _own_place(*frame.place, is_short=tool == "py-spy")
            if len(current.frames) < MOST_FRAMES:
                current.frames.append((frame.library, frame.function))
            current.deepest = max(current.deepest, frame.number)
    return _telling(found)


def _telling(stacks: Sequence[NativeStack]) -> list[NativeStack]:
    return [stack for stack in stacks if stack.frames or stack.fatal]


def _dump_begins(text: str) -> str | None:
    """The tool whose dump of Python frames begins with this line."""
    if text.startswith("Thread ") and _PYSPY.match(text):
        return "py-spy"
    if "(most recent call first)" in text and _FAULTHANDLER.search(text):
        return "faulthandler"
    if text.startswith("in expression starting") and _JULIA_AT.match(text):
        return "julia"
    return None


def _is_of_crash(text: str) -> bool:
    """Whether the dump that begins here is of the thread that crashed; others stand beside it."""
    begins = _FAULTHANDLER.search(text) if "(most recent call first)" in text else None
    return begins is not None and (begins["crashed"] or begins["only"]) is not None


def _own_place(file: str, line: int, function: str, *, is_short: bool) -> dict[str, Any] | None:
    if not is_own(file, is_short=is_short):
        return None
    return {"file": file, "line": line, "function": function}


def place_of_crash(stacks: Sequence[NativeStack]) -> NativeStack | None:
    """The thread that crashed, of the last dump that says so with a place."""
    crashed = [stack for stack in stacks if stack.fatal and stack.is_of_crash and stack.where]
    return crashed[-1] if crashed else None


def place_of_hang(stacks: Sequence[NativeStack]) -> NativeStack | None:
    """The main thread of the last dump of a process that stood still.

    py-spy names it; faulthandler dumps the threads newest first, so that the main one is its last.
    """
    dumps = [stack for stack in stacks if stack.tool in _PYTHON_DUMPS and not stack.fatal]
    named = [stack for stack in dumps if stack.is_of_main]
    return next((stack for stack in reversed(named or dumps) if stack.where), None)


def _python_frame(tool: str, match: re.Match[str]) -> _Frame:
    file, line, function = match.group("file", "line", "function")
    return _Frame(tool, "", f"{file}:{function}", place=(file, int(line[:9]), function))


def _frame(text: str, current: NativeStack | None) -> _Frame | None:
    if current and current.tool == "faulthandler" and (match := _PY_FRAME.match(text)):
        return _python_frame("faulthandler", match)
    if current and current.tool == "py-spy" and (match := _PYSPY_FRAME.match(text)):
        return _python_frame("py-spy", match)
    if current and current.tool == "julia" and (match := _JULIA.match(text)):
        return _Frame("julia", match["library"] or "", match["function"] or "??")
    stripped = text.lstrip()
    if stripped.startswith(("#", "* frame", "frame #")):
        if "`" in text and (match := _LLDB.match(text)):
            number, library, function = match.groups()
            return _Frame("debugger", library, function, int(number))
        if match := _GDB.match(text):
            number, function, library = match.groups()
            return _Frame("debugger", library or "", function or "??", int(number))
        return None
    if "[0x" in text and (match := _GLIBC.match(stripped)):
        return _Frame("glibc", match.group("library"), match.group("function"))
    if stripped[:1].isdigit() and "0x" in stripped and (match := _APPLE.match(stripped)):
        return _Frame("crash-report", match.group("library"), match.group("function"))
    return None
