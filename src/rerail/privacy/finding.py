r"""Where in a text secrets stand: by their shape, or by the name in front of them.

In: bytes, of any text. Out: spans with their kind, in order, none overlapping. One pass of RE2 says
that there is nothing (300 MB a second); only where it cannot, rows and names are looked for one by
one. Everything is linear in the text. Escape sequences of a terminal count as blanks, so that
colours hide nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rerail.platform.patterns import re2_options
from rerail.platform.terminal_text import ESCAPES_IN_BYTES
from rerail.privacy.names import MASKED, SECRET_NAME, URL_LOGIN, is_secret_value
from rerail.privacy.shapes import SHAPES, Shape

_COLOUR = r"\x1b\[[0-9;:]*m"
_BLANKS = rf"(?:[ \t\x00]|{_COLOUR}){{0,24}}"

# Names that announce a secret, as RE2 can tell them; `names` decides. Values of the weak ones have
# eight characters at the least and are no plain numbers: training logs are full of `tokens=512`.
_STRONG = (
    r"(?i:passw|passphrase|passcode|pwd|secret|credential|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|authorization)"
)
_WEAK = (
    r"(?:(?i:token|[a-z0-9][_-](?:key|pass|pw|pat|sas|creds?)|auth|cookie|dsn|jwt|bearer|netrc"
    r"|signature|webhook|session[_-]?id|client[_-]?id|connection[_-]?string|database[_-]?url"
    r"|accountkey|sas|cred)|[a-z]Key)"
)
_REST = r"[A-Za-z0-9_-]{0,40}(?:\\?[\"'])?"
_LINK = rf"{_BLANKS}(?:=>|:=|==?|:){_BLANKS}(?:\\?[\"'])?"
_FLAG_LINK = r"(?:[ \t]{1,4}|[\"'],[ \t]{0,4})(?:\\?[\"'])?"
_NO_NUMBER = r"[\d.]*[^\s\d.,;)\]}<>\x00\"'\\]"
_LONG = r"[^\s,;)\]}<>\x00\"'\\]{8}"
_ANNOUNCED = (
    rf"{_STRONG}{_REST}{_LINK}{_NO_NUMBER}|{_WEAK}{_REST}{_LINK}{_LONG}"
    rf"|-[A-Za-z0-9_-]{{0,40}}(?:{_STRONG}|{_WEAK}|(?i:-pass|-pw|-pat))[A-Za-z0-9_-]{{0,40}}"
    rf"(?:{_FLAG_LINK}|=(?:\\?[\"'])?){_NO_NUMBER}"
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
    r"(?P<link>\\?[\"']?[ \t\0]{0,200}(?:=>|:=|==?|:)[ \t\0]{0,200}|[\"'],[ \t]{0,4}(?=[\"'])"
    r"|[ \t]{1,4})"
    r"(?:\"(?P<double>[^\"\n]{1,400})\"|'(?P<single>[^'\n]{1,400})'"
    r"|\\[\"'](?P<escaped>[^\"'\\\n]{1,400})|(?P<bare>[^\s\0\"'`,;&<>|(){}\[\]\\]{1,400}))",
    re.ASCII,
)
_COUNT = re.compile(r"\{(\d+)(,\d*)?\}")
_LONGEST_COUNT = 16
_NOBODY = (b"git", b"hg", b"svn")  # git@host names nobody


class Found(NamedTuple):
    start: int
    end: int
    kind: str


def find_secrets(text: bytes) -> list[Found]:
    """All secrets of a text, in order, none overlapping; the longer one where two would."""
    engine = _engine()
    if engine.suspicion.search(text) is None:
        return []
    text = without_escapes(text)
    return without_overlaps(text, [*engine.shapes(text), *engine.announced_values(text)])


def without_escapes(text: bytes) -> bytes:
    """Blanks of the same length in place of colours and other terminal sequences."""
    if b"\x1b" not in text:
        return text
    return ESCAPES_IN_BYTES.sub(lambda match: b"\0" * len(match[0]), text)


def without_overlaps(text: bytes, found: Iterable[Found]) -> list[Found]:
    kept: list[Found] = []
    for place in sorted(found, key=lambda place: (place.start, -place.end)):
        if text[place.start] in b"[*":
            value = text[place.start : place.start + 64].decode("latin-1")
            if MASKED.match(value):
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

        # Of the automaton's cache: with less it thrashes on this many.
        self._options = options = re2_options(memory_bytes=64 << 20)
        self._compile = functools.partial(re2.compile, options=options)
        words = "|".join(shape.pattern for shape in SHAPES if shape.begins_a_word)
        others = "|".join(shape.pattern for shape in SHAPES if not shape.begins_a_word)
        suspicion = rf"(?:\b|{_COLOUR})(?:{words})|{others}|{_ANNOUNCED}"
        self.suspicion: Any = self._compile(_coarser(suspicion).encode())
        self._rows: dict[int, Any] = {}

    @functools.cached_property
    def _announced(self) -> Any:
        return self._compile(_ANNOUNCED.encode())

    @functools.cached_property
    def _set(self) -> Any:
        import re2

        rows = re2.Set.SearchSet(self._options)
        for shape in SHAPES:
            rows.Add(_coarser(_expression(shape)).encode())
        rows.Compile()
        return rows

    def shapes(self, text: bytes) -> Iterator[Found]:
        for number in self._set.Match(text) or ():
            if number not in self._rows:
                self._rows[number] = self._compile(_expression(SHAPES[number]).encode())
            yield from _matches(SHAPES[number], self._rows[number], text)

    def announced_values(self, text: bytes) -> Iterator[Found]:
        """Values that the name of a secret stands in front of."""
        at = 0
        while at < len(text):
            candidate = self._announced.search(text, at)
            if candidate is None:
                return
            start, end = candidate.span()
            at = end
            window = text[max(0, start - _LONGEST_NAME) : end + 512].decode("latin-1")
            shift = max(0, start - _LONGEST_NAME)
            for found in _announced(window, start - shift, end - shift):
                yield Found(found.start + shift, found.end + shift, found.kind)
                at = max(at, found.end + shift)


@functools.cache
def _engine() -> _Engine:
    return _Engine()


def _expression(shape: Shape) -> str:
    boundary = r"\b" if shape.begins_a_word else ""
    return f"{boundary}(?:{shape.pattern})"


def _coarser(pattern: str) -> str:
    """The same with long counts cut short: it matches more, and is built three times as fast."""

    def shorter(count: re.Match[str]) -> str:
        least = min(int(count[1]), _LONGEST_COUNT)
        is_exact = count[2] is None and least < _LONGEST_COUNT
        return f"{{{least}}}" if is_exact else f"{{{least},}}"

    return _COUNT.sub(shorter, pattern)


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


def _announced(text: str, first: int, last: int) -> Iterator[Found]:
    """The value of a name that begins between `first` and `last`."""
    for word in _WORD.finditer(text, first, last):
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
            yield Found(match.start(group), match.end(group), SECRET_NAME)
            return


def _start_of_name(text: str, at: int) -> int:
    lowest = max(0, at - _LONGEST_NAME)
    while at > lowest and text[at - 1] in _NAME_CHARACTERS:
        at -= 1
    is_escape = at > 0 and text[at - 1] == "\\" and text[at] in "nrt"
    return at + 1 if is_escape else at  # "…\\nKey: x" in JSON is a line that begins with Key
