"""Where in a text secrets stand: by their shape, or by the name in front of them.

In: bytes, of any text. Out: spans with their kind, in order, none overlapping. One pass of RE2
finds the few lines that may hold something (300 MB a second where nothing does); only those are
taken apart. Escape sequences of a terminal count as blanks, so that colours hide nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rerail.privacy.names import MASKED, is_secret_value
from rerail.privacy.shapes import SECRET_NAME, SEVERAL_LINES, SHAPES, URL_LOGIN, Shape

_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_FAR = 4096  # how much of an endless line is looked at, to either side of what was found

# A name of a secret, what links it to its value, and the first letter of a value that is no number.
_ANNOUNCED = (
    r"(?i:token|secret|passw|passphrase|passcode|[_-]pass\b|--pass\b|pwd|[_-]pw\b|credential"
    r"|[_-]creds?\b|key|auth|cookie|[_-]sas\b|dsn|jwt|bearer|netrc|signature|webhook|session[_-]?id"
    r"|client[_-]?id|connection[_-]?string|database[_-]?url|[_-]pat\b)"
    r"[A-Za-z0-9_-]{0,40}(?:\\?[\"'])?"
    r"(?:[\s\x00]{0,24}(?:=>|:=|==?|:)[\s\x00]{0,24}|\s{1,4}|,\s{0,4}[\"'])(?:\\?[\"'])?"
    r"[\d.]{0,400}[^\s\d.,;)\]}<>\x00\"'\\]"
)
_WORD = re.compile(
    r"token|secret|pass|pwd|pw|cred|key|auth|cookie|sas|dsn|jwt|bearer|netrc|signature|webhook"
    r"|session|client|connection|database|pat",
    re.IGNORECASE,
)
_REST_OF_NAME = re.compile(r"[A-Za-z0-9_-]{0,40}")
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_LONGEST_NAME = 60
_VALUE = re.compile(
    r"(?P<link>\\?[\"']?[\s\0]{0,24}(?:=>|:=|==?|:)[\s\0]{0,24}|[\"'],\s{0,4}(?=[\"'])|\s{1,4})"
    r"(?:\"(?P<double>[^\"\n]{1,400})\"|'(?P<single>[^'\n]{1,400})'"
    r"|\\[\"'](?P<escaped>[^\"'\\\n]{1,400})|(?P<bare>[^\s\0\"'`,;&<>|(){}\[\]\\]{1,400}))",
    re.ASCII,
)
_NOBODY = (b"git", b"hg", b"svn")  # git@host names nobody


class Found(NamedTuple):
    start: int
    end: int
    kind: str


def find_secrets(text: bytes) -> list[Found]:
    """All secrets of a text, in order, none overlapping; the longer one where two would."""
    text = without_escapes(text)
    engine = _engine()
    found: list[Found] = []
    for window_start, window_end in _suspicious(text, engine):
        window = text[window_start:window_end]
        for place in engine.places(window):
            found.append(Found(place.start + window_start, place.end + window_start, place.kind))
        for place in _announced(window.decode("latin-1")):
            found.append(Found(place.start + window_start, place.end + window_start, place.kind))
    for shape, pattern in engine.over_lines:
        if shape.near_miss and all(word in text for word in _NEEDED[shape.kind]):
            found += _matches(shape, pattern, text)
    return without_overlaps(text, found)


_NEEDED = {SEVERAL_LINES[0]: (b"PRIVATE KEY",), SEVERAL_LINES[1]: (b"login", b"password")}


def without_escapes(text: bytes) -> bytes:
    """Blanks of the same length in place of colours and other terminal sequences."""
    if b"\x1b" not in text:
        return text
    return _ESCAPES.sub(lambda match: b"\0" * len(match[0]), text)


def may_hold_a_secret(text: bytes) -> bool:
    """One quick pass: False is certain."""
    return _engine().suspicion.search(without_escapes(text)) is not None


def without_overlaps(text: bytes, found: Iterable[Found]) -> list[Found]:
    kept: list[Found] = []
    for place in sorted(found, key=lambda place: (place.start, -place.end)):
        if place.end - place.start < 64:
            value = text[place.start : place.end].decode("latin-1")
            if MASKED.fullmatch(value) or value.startswith(("[secret", "***")):
                continue
        if kept and place.start < kept[-1].end:
            if place.end > kept[-1].end:
                last = kept.pop()
                kept.append(Found(last.start, place.end, last.kind))
            continue
        kept.append(place)
    return kept


class _Engine:
    """The table, compiled: one pattern for suspicion, one set to name the rows, each row alone."""

    def __init__(self) -> None:
        import re2  # late: most short runs print nothing that has to be looked at

        options = re2.Options()
        options.max_mem = 64 << 20  # of the automaton's cache; the default thrashes on this many
        options.log_errors = False
        expressions = [_expression(shape) for shape in SHAPES]
        everything = b"|".join([*expressions, _ANNOUNCED.encode()])
        self.suspicion: Any = re2.compile(everything, options)
        rows = [
            (shape, expression)
            for shape, expression in zip(SHAPES, expressions, strict=True)
            if shape.kind not in SEVERAL_LINES
        ]
        self._set: Any = re2.Set.SearchSet(options)
        for _, expression in rows:
            self._set.Add(expression)
        self._set.Compile()
        self._rows: list[tuple[Shape, bytes]] = rows
        self._compiled: dict[int, Any] = {}
        self._compile = functools.partial(re2.compile, options=options)
        self.over_lines = [
            (shape, re2.compile(expression, options))
            for shape, expression in zip(SHAPES, expressions, strict=True)
            if shape.kind in SEVERAL_LINES
        ]

    def places(self, text: bytes) -> Iterator[Found]:
        for number in self._set.Match(text) or ():
            shape, expression = self._rows[number]
            if number not in self._compiled:
                self._compiled[number] = self._compile(expression)
            yield from _matches(shape, self._compiled[number], text)


@functools.cache
def _engine() -> _Engine:
    return _Engine()


def _expression(shape: Shape) -> bytes:
    boundary = r"\b" if shape.begins_a_word else ""
    return f"{boundary}(?:{shape.pattern})".encode()


def _matches(shape: Shape, pattern: Any, text: bytes) -> Iterator[Found]:
    for match in pattern.finditer(text):
        group = 1 if match.re.groups else 0
        start, end = match.span(group)
        value = match[group]
        if shape.kind == URL_LOGIN and value in _NOBODY:
            continue
        if shape.kind == "bearer token" and value.isalpha():
            continue  # "bearer certificates" is prose
        if shape.kind == "authorization header" and len(value) < 8 and value.isalpha():
            continue  # the scheme, or "none"
        yield Found(start, end, shape.kind)


def _suspicious(text: bytes, engine: _Engine) -> Iterator[tuple[int, int]]:
    """The lines, or parts of an endless line, that may hold something."""
    at = 0
    while at < len(text):
        match = engine.suspicion.search(text, at)
        if match is None:
            return
        first, last = match.span()
        start = max(at, text.rfind(b"\n", max(0, first - _FAR), first) + 1, first - _FAR)
        end = text.find(b"\n", last, last + _FAR)
        is_whole = end >= 0
        end = end if is_whole else min(len(text), last + _FAR)
        yield start, end
        # Past an endless line's part go back a little: a name may stand at its very end.
        at = end + 1 if is_whole or end == len(text) else max(last, end - _FAR // 2)


def _announced(text: str) -> Iterator[Found]:
    """Values that the name of a secret stands in front of."""
    done = 0
    for word in _WORD.finditer(text):
        if word.start() < done:
            continue
        name_start = _start_of_name(text, word.start())
        rest = _REST_OF_NAME.match(text, word.end())
        name_end = rest.end() if rest else word.end()
        match = _VALUE.match(text, name_end)
        if match is None:
            continue
        # "password required" is prose; "--password required" is a value.
        is_flag = text[name_start] == "-"
        link = match["link"].strip("\0 \t")
        if (link == "" or link.endswith(",")) and not is_flag:
            continue
        name = text[name_start:name_end].lstrip("-")
        group = next(g for g in ("double", "single", "escaped", "bare") if match[g] is not None)
        if is_secret_value(name, match[group], is_certain=is_flag):
            start, end = match.span(group)
            yield Found(start, end, SECRET_NAME)
            done = end


def _start_of_name(text: str, at: int) -> int:
    lowest = max(0, at - _LONGEST_NAME)
    while at > lowest and text[at - 1] in _NAME_CHARACTERS:
        at -= 1
    return at
