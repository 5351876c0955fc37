"""Finds Python tracebacks in clean lines, whole or cut, plain or folded, from many ranks at once.

In: lines as `lines.to_lines` gives them. Out: `TracebackText` in order of their end. A traceback
is known by its header or, where a paste lost the header, by its frames; it ends with its exception
line or, where the paste lost that too, with its last frame. Exception lines that stand alone
(`RuntimeError: CUDA out of memory`) are tracebacks without frames. IPython's and pytest's forms,
"Caught X in DataLoader worker process 0", and chains ("During handling of …") are understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rerail.evidence.text import fatal_lines
from rerail.evidence.text.lines import Line, parse_stamp
from rerail.platform.own_code import innermost_own, named_function
from rerail.platform.patterns import linear
from rerail.platform.printed_progress import read_line
from rerail.platform.wordings import wordings

_HEADER = linear(r"(?:Original )?Traceback \(most recent call last\):?")
_FRAME = linear(
    # Two processes that write at once put a frame behind a piece of another line.
    r"(?:\s*|[^\"\n]{1,120}\s{2})File \"?(?P<file>[^\"\n]+?)\"?, line (?P<line>\d{1,9})"
    r"(?:,? in (?P<function>[^\n]+))?\s*$"
)
_IPYTHON_FRAME = linear(
    r"\s*(?:File )?(?P<file>(?:[~/\w.]|[A-Za-z]:\\)[^\s()]*?\.pyx?|<ipython-input[^>]*>)"
    r"(?: in |:\d+, in |\(\d+\) in )(?P<function>[\w<>.]+)\("
)
_ARROW = linear(r"-+> ?(?P<line>\d{1,9})\s(?P<code>.*)")
_MARKED = ("-->", "--->", "---->", "[Previous line")  # what begins a line of code without a space
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Z_a-z]\w*"
_TELLING = (
    r"(?:(?:[A-Za-z_]\w*\.)*"
    r"(?:[A-Z]\w*(?:Error|Exception|Failure|Fault|Timeout|Refused|Abort(?:ed)?)"
    r"|KeyboardInterrupt|SystemExit|StopIteration|NotImplemented|BrokenProcessPool"
    r"|ArrowInvalid|OutOfMemory|ConfigException)|(?:[A-Za-z_]\w*\.)+[eE]rror"
    r"|(?:[A-Za-z_]\w*\.)+(?:exc|exceptions?|errors?)\.[A-Z]\w+)"
)
# One of these is in every lone exception line and in a chain's sentence.
_TELLING_WORDS = (
    *("Error", "rror:", "Exception", "exception", "Failure", "Fault", "Timeout", "Refused"),
    *("Abort", "Interrupt", "Exit", "StopIteration", "NotImplemented", "BrokenProcessPool"),
    *("ArrowInvalid", "OutOfMemory", ".exc.", "exceptions.", "errors."),
)
_EXCEPTION = linear(rf"(?P<type>{_TELLING})(?:: ?(?P<message>.*)|\s*)$", re.DOTALL)
_ANY_EXCEPTION = linear(rf"(?P<type>{_NAME})(?:: (?P<message>.*)|:?\s*)$", re.DOTALL)
_LOGGED = linear(rf"(?:^|[\s\]|>:-])(?P<type>{_TELLING}): (?P<message>\S.*)$")
_CHAIN = linear(
    r"During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception"
)
_CAUGHT = linear(r"Caught (?P<type>\w+) in (?:DataLoader worker process|replica) (?P<at>\d+)")
# What a logger or the warnings module prints next is no part of an exception's message.
_NEW_RECORD = linear(
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|\[(?:INFO|WARN\w*|ERROR|DEBUG)\]"
    r"|\S+\.py:\d+: \w*Warning:|[WEIF]\d{4} \d\d:"
)
_WORDINGS = wordings("tracebacks")
_ANNOUNCES, _GOES_ON = _WORDINGS["announces"], _WORDINGS["goes-on"]
# A sentence that a terminal or a paste has broken at the end of a long line.
_LEAST_WRAPPED = 60
_UNFINISHED = "_,*+=(&|-"  # or a letter or a digit
_MOST_MESSAGE_LINES = 24
_MOST_MESSAGE_CHARS = 4000
_MOST_SOURCE = 160  # of a frame's line
_MOST_ASSERTED = 300  # characters of the code of an assertion
_MOST_FRAMES = 400  # kept of one traceback: the outermost and the innermost half


@dataclass(frozen=True)
class _NumberedFrame:
    file: str
    at: int


@dataclass
class TracebackText:
    first_line: int
    last_line: int
    type: str = ""  # without its modules; empty when the paste ends before it
    full_type: str = ""
    message: str = ""
    frames: list[tuple[str, int, str]] = field(default_factory=list)  # file, line, function
    stream: str = ""
    file: int = 0
    is_chained: bool = False  # another exception followed from this one
    worker: str | None = None  # "DataLoader worker 0"
    is_ignored: bool = False  # "Exception ignored in": the program goes on
    has_header: bool = False
    is_dump: bool = (
        False  # frames of faulthandler, below "most recent call first": nothing was raised
    )
    is_message_lost: bool = False  # its header has the type, and the paste ends before the rest
    stamp_text: str = ""
    sources: list[str] = field(default_factory=list)  # of each frame: its line of code, or ""
    message_lines: list[int] = field(default_factory=list)  # where the exception's own words stand
    source_lines: list[int] = field(default_factory=list)  # where frames and their code stand
    folded_count: int = 0  # frames that are not kept: repeated ones, and the middle of a deep stack

    @property
    def stamp(self) -> float | None:
        """Seconds since the epoch; read when asked for, since few tracebacks are asked."""
        return parse_stamp(self.stamp_text) if self.stamp_text else None

    @property
    def is_in_own_code(self) -> bool:
        return self.own_at is not None

    @property
    def own_at(self) -> int | None:
        """Which frame is the innermost of the program's own code; None if none is."""
        numbered = [_NumberedFrame(file, at) for at, (file, _, _) in enumerate(self.frames)]
        own = innermost_own(reversed(numbered))
        return None if own is None else own.at

    @property
    def where(self) -> dict[str, Any] | None:
        """The innermost frame of the program's own code, as the fact `where` has it."""
        if self.own_at is None:
            return None
        file, line, function = self.frames[self.own_at]
        callers = [(name, of) for name, _, of in reversed(self.frames[: self.own_at])]
        function = named_function(function, callers, file)
        code = self.sources[self.own_at]
        place: dict[str, Any] = {"file": file, "line": line, "function": function}
        return {**place, "code": code} if code else place

    @property
    def raised_at(self) -> str:
        """Where, in one line: `train.py:12 in main: y = labels[name]`.

        The innermost frame of the program's own code says more than that of the library which
        noticed; without one, the innermost of all.
        """
        if not self.frames:
            return ""
        at = len(self.frames) - 1 if self.own_at is None else self.own_at
        file, line, function = self.frames[at]
        where = f"{file}:{line}" if line else file
        source = self.sources[at]
        return f"{where} in {function}" + (f": {source}" if source else "")

    def add_frame(self, file: str, line: int, function: str) -> None:
        """Keep a frame, unless it repeats the three before it, as CPython folds a recursion."""
        frame = (file, line, function)
        if self.frames[-3:] == [frame] * 3:
            self.folded_count += 1
            return
        self.frames.append(frame)
        self.sources.append("")
        if len(self.frames) >= 2 * _MOST_FRAMES:
            half = _MOST_FRAMES // 2
            self.folded_count += len(self.frames) - _MOST_FRAMES
            del self.frames[half:-half], self.sources[half:-half]

    def add_source(self, text: str) -> None:
        """The code of the last frame; IPython marks its line among others, with its number."""
        if not self.frames:
            return
        if text.startswith("--") and (arrow := _ARROW.match(text)):
            file, line, function = self.frames[-1]
            self.frames[-1] = (file, line or int(arrow["line"]), function)
            self.sources[-1] = arrow["code"].strip()[:_MOST_SOURCE]
        elif not self.sources[-1] and text.strip(" \t~^"):
            self.sources[-1] = text.strip()[:_MOST_SOURCE]

    @property
    def text(self) -> str:
        return f"{self.full_type}: {self.message}" if self.message else self.full_type

    @property
    def is_whole(self) -> bool:
        """More than an exception's last line, which a logger may have quoted."""
        return self.has_header or bool(self.frames)

    @property
    def is_lone(self) -> bool:
        """An exception's line without a traceback, as a program prints that may go on."""
        return not self.is_whole and self.type != fatal_lines.TYPE

    @property
    def is_cut(self) -> bool:
        return not self.type or self.is_message_lost


class _Open:
    """A traceback being read from one stream."""

    def __init__(self, line: Line, *, has_header: bool, is_ignored: bool = False) -> None:
        self.found = TracebackText(
            line.number,
            line.number,
            stream=line.stream,
            file=line.file,
            has_header=has_header,
            is_ignored=is_ignored,
            stamp_text=line.stamp_text,
        )
        self.message_lines = 0
        self.source_lines = 0
        self.type_on_header = ""  # IPython's: known although the paste may end before the exception


def find_tracebacks(lines: Sequence[Line]) -> list[TracebackText]:
    """Every traceback and lone exception line, in order of their last line."""
    reader = _Reader()
    for line in lines:
        reader.feed(line)
    return reader.finish()


def with_those_it_quotes(raised: TracebackText, lines: Sequence[Line]) -> list[TracebackText]:
    """Return a recorded exception and the tracebacks that its message holds, as a pool's does.

    `lines` are the exception's own words, the first of them with its type.
    """
    quoted = [found for found in find_tracebacks(lines) if found.first_line > lines[0].number]
    end = next((found.first_line for found in quoted), lines[-1].number + 1)
    own = [line for line in lines if line.number < end]
    raised.message_lines = [line.number for line in own]
    said = "\n".join(line.text for line in own).removeprefix(raised.full_type)
    raised.message = said.removeprefix(":").strip()[:_MOST_MESSAGE_CHARS]
    caught = _CAUGHT.match(raised.message)
    raised.is_chained = caught is not None and bool(quoted)
    if caught is not None and quoted:
        quoted[0].worker = f"DataLoader worker {caught['at']}"
    return [raised, *quoted]


class _Reader:
    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._found: list[TracebackText] = []
        self._ignored_at: dict[str, int] = {}
        self._dump_at: dict[str, int] = {}
        self._before: dict[str, str] = {}  # the last line with words on it

    def finish(self) -> list[TracebackText]:
        for stream in list(self._open):
            self._close(stream)
        self._found.sort(key=lambda found: (found.file, found.last_line))
        return self._found

    def _close(self, stream: str) -> None:
        current = self._open.pop(stream, None)
        if current is None:
            return
        found = current.found
        if not found.type and not found.frames:
            return
        if not found.type and current.type_on_header:
            found.full_type = current.type_on_header
            found.type = found.full_type.rpartition(".")[2]
            found.is_message_lost = True
        if found.message.startswith("Caught") and (caught := _CAUGHT.match(found.message)):
            found.worker = f"DataLoader worker {caught.group('at')}"
        self._found.append(found)

    def feed(self, line: Line) -> None:
        text, stream = line.text, f"{line.file}:{line.stream}"
        current = self._open.get(stream)
        if "Traceback (" in text and (header := _HEADER.search(text)):
            self._header(line, stream, text[: header.start()])
            return
        if "Exception ignored in" in text:
            self._ignored_at[stream] = line.number
        elif "(most recent call first)" in text:
            self._dump_at[stream] = line.number
        frame = _FRAME.match(text) if "File " in text else None
        if frame is None and ("in " in text and "(" in text):
            frame = _IPYTHON_FRAME.match(text)
        if frame:
            self._frame(line, stream, current, frame)
        elif current is None:
            self._lone(line, stream)
        elif not current.found.type:
            self._inside(line, stream, current)
        else:
            self._message(line, stream, current)
        if words := text.strip(" \t~^"):
            self._before[stream] = words

    def _header(self, line: Line, stream: str, before: str) -> None:
        previous = self._open.get(stream)
        type_before = _EXCEPTION.match(before.strip()) if before.strip() else None
        original = "Original Traceback" in line.text
        caught = previous.found if previous and original else None
        self._close(stream)
        ignored = line.number - self._ignored_at.get(stream, -9) <= 2
        opened = self._open[stream] = _Open(line, has_header=True, is_ignored=ignored)
        if caught:
            caught.is_chained = True
            if found := _CAUGHT.match(caught.message):
                opened.found.worker = f"DataLoader worker {found.group('at')}"
        if type_before:  # IPython: the type stands on the header's line
            opened.source_lines = -200
            if not before.rstrip().endswith(":"):
                opened.type_on_header = type_before.group("type")

    def _frame(self, line: Line, stream: str, current: _Open | None, frame: re.Match[str]) -> None:
        if current is None or current.found.type:
            self._close(stream)
            current = self._open[stream] = _Open(line, has_header=False)
            current.found.is_dump = line.number - self._dump_at.get(stream, -9) <= 1
        file, *at, function = frame.groups()  # IPython's frames have no line
        number = int(at[0]) if at and at[0] else 0
        current.found.add_frame(file, number, (function or "").strip())
        current.found.last_line = line.number
        current.found.source_lines.append(line.number)
        current.source_lines = min(current.source_lines, 0)

    def _inside(self, line: Line, stream: str, current: _Open) -> None:
        """Between the frames and the exception: source lines, carets, blank lines."""
        text = line.text
        if not text or text[0] in " \t" or text.startswith(_MARKED):
            stripped = text.strip()
            is_indented_little = len(text) - len(text.lstrip()) < 3
            lone = _EXCEPTION.match(stripped) if stripped and is_indented_little else None
            if lone and lone.group("message"):
                self._exception(line, current, lone)
                return
            current.source_lines += 1
            current.found.source_lines.append(line.number)
            current.found.add_source(text)
            if current.source_lines > 60:
                self._close(stream)
            return
        pattern = (
            _ANY_EXCEPTION if current.found.has_header and current.found.frames else _EXCEPTION
        )
        if found := pattern.match(text):
            self._exception(line, current, found)
            return
        if logged := _LOGGED.search(text):
            self._exception(line, current, logged)
            return
        current.source_lines += 4  # another writer's line between the frames
        if current.source_lines > 60:
            self._close(stream)

    def _exception(self, line: Line, current: _Open, found: re.Match[str]) -> None:
        full_type, message = found.groups()
        current.found.full_type = full_type
        current.found.type = full_type.rpartition(".")[2]
        current.found.message = (message or "").strip() or self._asserted(line, full_type)
        current.found.last_line = line.number
        current.found.message_lines.append(line.number)
        current.found.stamp_text = line.stamp_text or current.found.stamp_text

    def _asserted(self, line: Line, full_type: str) -> str:
        """An assertion without words of its own says what it is in its code."""
        before = self._before.get(f"{line.file}:{line.stream}", "")
        if full_type != "AssertionError" or not before.startswith("assert "):
            return ""
        return before.partition("  #")[0].partition(" # ")[0].strip()[:_MOST_ASSERTED]

    def _message(self, line: Line, stream: str, current: _Open) -> None:
        """Lines after the exception line belong to its message until something else begins."""
        text = line.text
        if "exception" in text and _CHAIN.search(text):
            current.found.is_chained = True
            self._close(stream)
            return
        if current.found.is_lone and not self._goes_on(current.found, text):
            self._close(stream)
            self._lone(line, stream)
            return
        current.message_lines += 1
        if _NEW_RECORD.match(text) or (line.stamp_text and not current.found.stamp_text):
            self._close(stream)
            return
        next_exception = _EXCEPTION.match(text)
        if not text.strip() or next_exception or current.message_lines > _MOST_MESSAGE_LINES:
            if not text.strip() and current.message_lines < 3:
                return  # a blank line inside a message, or before a chain's sentence
            self._close(stream)
            if next_exception:
                self._lone(line, stream, next_exception)
            return
        is_place = current.message_lines == 1 and current.found.message.endswith(":")
        is_place = is_place and current.found.type == fatal_lines.TYPE
        said = (text.strip(), current.found.message)  # Rust's words go before their place
        current.found.message = "\n".join(said if is_place else said[::-1])
        current.found.message_lines.append(line.number)

    @staticmethod
    def _goes_on(found: TracebackText, text: str) -> bool:
        """Whether the message of a lone exception line, whose program may go on, has this line."""
        if read_line(text) is not None:
            return False  # progress is nobody's message
        said = found.text.rpartition("\n")[2]
        if said.endswith(":") or _ANNOUNCES.search(said):
            return True
        if text[:1] in (" ", "\t") or _GOES_ON.match(text):
            return True
        is_wrapped = len(said) >= _LEAST_WRAPPED and (said[-1].isalnum() or said[-1] in _UNFINISHED)
        return is_wrapped and bool(text.strip()) and not text[0].isupper()

    def _lone(self, line: Line, stream: str, found: re.Match[str] | None = None) -> None:
        """An exception line without frames, alone or behind a logger's words."""
        text = line.text.strip()
        if len(text) < 6 or text.startswith(("#", "|", "raise ", "except ")):
            return
        if not any(word in text for word in _TELLING_WORDS):
            self._native(line, stream)
            return
        if "exception" in text and _CHAIN.search(text):
            if self._found and self._found[-1].stream == line.stream:
                self._found[-1].is_chained = True
            return
        found = found or _EXCEPTION.match(text) or _LOGGED.search(text)
        if found and (found.group("message") or text.endswith(("Interrupt", "Error", "Exit"))):
            ignored = line.number - self._ignored_at.get(stream, -9) <= 2
            opened = _Open(line, has_header=False, is_ignored=ignored)
            self._exception(line, opened, found)
            self._open[stream] = opened
        elif not found:
            self._native(line, stream)

    def _native(self, line: Line, stream: str) -> None:
        """The last words of native code, which has no exceptions that Python knows."""
        message = fatal_lines.fatal_message(line.text)
        if message is None:
            return
        opened = _Open(line, has_header=False)
        found = opened.found
        found.type = found.full_type = fatal_lines.TYPE
        found.message = message[:_MOST_MESSAGE_CHARS]
        found.message_lines.append(line.number)
        if fatal_lines.goes_on(message):
            self._open[stream] = opened
        else:
            self._found.append(found)
