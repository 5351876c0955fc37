r"""Where in a text secrets stand: by their shape, or by the name in front of them.

In: bytes, of any text. Out: spans with their kind, in order, none overlapping. One pass of RE2 says
that there is nothing (300 MB a second); only where it cannot, rows and names are looked for one by
one. Everything is linear in the text. Escape sequences of a terminal count as blanks, so that
colours hide nothing.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rerail.platform.patterns import re2_options
from rerail.platform.terminal_text import ESCAPES_IN_BYTES
from rerail.privacy.layouts import SUSPICION, find_in_layouts
from rerail.privacy.names import (
    MASKED,
    PROGRAM,
    PROGRAMS,
    SECRET_NAME,
    TABLE,
    TELLING,
    URL_LOGIN,
    is_key_like,
    is_random,
    is_secret_value,
    is_strong_name,
)
from rerail.privacy.shapes import SHAPES, Shape

# What a secret with a shape begins behind: also `_` in a file name, and what JSON, `repr` or a URL
# make of a line end, a colour or a sign.
_BOUNDARY = r"(?:\b|_|%[0-9A-Fa-f]{2}|\\(?:[nrt]|(?:u00|x)1[bB]\[[0-9;]{0,16}m))"
_COLOUR = r"\x1b\[[0-9;:]*m"
_BLANKS = rf"(?:[ \t\x00]|{_COLOUR}){{0,24}}"

# Names that announce a secret, as RE2 can tell them; `names` decides. Values of the weak ones have
# eight characters at the least and are no plain numbers: training logs are full of `tokens=512`.
_STRONG = (
    r"(?i:passw|pswd|passphrase|passcode|pwd|secret|credential|kennwort|authorization"
    r"|(?:api|access|private|secret|account)[ ._-]?key)"
)
_WEAK = (
    r"(?:(?i:[a-z0-9][_-](?:key|pass|pw|pat|sas|creds?)|[a-z0-9](?:key|pass|pw|pat|creds?)\b"
    r"|\b(?:pass|pw)\b|token|auth|cookie|dsn|jwt|bearer|netrc|psk|signature|webhook"
    r"|session[_-]?id|client[_-]?id|connection[_-]?string|database[_-]?url|recovery[_-]?code"
    r"|totp|accountkey|sas|cred)|[a-z]Key)"
)
# What opens a value: a quote behind any number of backslashes (JSON in JSON), three quotes,
# `b'…'`, `SecretStr('…')`, an anchor or a tag of YAML.
_QUOTES = r"\"\"\"\s?|'''\s?|[\"'\x60]"
_OPENING = rf"(?:Secret(?:Str|Bytes)\(|[&!]{{1,2}}\w{{1,20}}[ ])?(?:b?\\{{0,7}}(?:{_QUOTES}))?"
_REST = r"[A-Za-z0-9_-]{0,40}(?:\\{0,7}[\"'])?"
# What stands between a name and its value. So does `"NAME", "value":` of Kubernetes and XML,
# `input_value=` of pydantic in the line below the name, and `</name><value>` of Hadoop.
_SIGN = r"(?:=>|->|→|:=|==?|:|%3[AaDd]|>)"
_BY_VALUE = (
    r"\\{0,7}[\"']?,?[ \t]{0,4}(?:\r?\n)?[ \t]{0,24}\\{0,7}[\"']?value\\{0,7}[\"']?"
    r"[ \t]{0,4}[:=][ \t]{0,4}|\r?\n[ ]{2}[^\n]{1,200}input_value="
    r"|</name>\s{0,80}<value>"
)
_LINK = rf"(?:\]?(?:(?i: for )[^\s:=]{{1,40}})?{_BLANKS}{_SIGN}{_BLANKS}|\(|{_BY_VALUE})"
_FLAG_LINK = r"(?:[ \t]{1,4}|[\"'],[ \t]{0,4})(?:\\?[\"'])?"
# A value, but for a mask.
_FIRST = r"(?:[^\s\d.,;)\]}<>\x00\"'\\\[]|\[[^s…])"
_NO_NUMBER = rf"[\d.]*{_FIRST}"
_LONG = rf"(?:{_FIRST}|[\d.])[^\s,;)\]}}<>\x00\"'\\]{{7}}"
# "the generated password for the elastic user is: …", "password changed to …", and the line below.
_SENTENCE = (
    r"[\"']?(?:[ \t][^\s:=\"'\x00]{1,40}){1,8}(?:[ \t]?:|[ \t](?:to|is|value))"
    r"[ \t]{0,4}(?:\r?\n)?[ \t]{0,8}[\"']?"
)
_ANNOUNCED = (
    rf"{_STRONG}{_REST}(?:{_LINK}|[ \t]is:?[ \t]){_OPENING}{_NO_NUMBER}"
    rf"|{_STRONG}{_REST}{_SENTENCE}{_LONG}"
    rf"|{_WEAK}{_REST}{_LINK}{_OPENING}{_LONG}"
    rf"|(?:{_STRONG}|(?i:token)|_(?:PASS|PW|PAT|KEY)){_REST}[ \t]{_OPENING}{_LONG}"
    rf"|[A-Z0-9_]{{1,40}}(?:PASS|PW)={_OPENING}{_NO_NUMBER}"
    rf"|[(\[][\"'][A-Za-z0-9_-]{{0,40}}(?:{_STRONG}|{_WEAK})[A-Za-z0-9_-]{{0,40}}"
    rf"[\"'],[ ]?[\"']{_LONG}"
    rf"|-[A-Za-z0-9_-]{{0,40}}(?:{_STRONG}|{_WEAK}|(?i:pass|pw|pat))[A-Za-z0-9_-]{{0,40}}"
    rf"(?:{_FLAG_LINK}|=(?:\\?[\"'])?){_NO_NUMBER}"
)
_SPACED_NAME = re.compile(r"(?i:\b(api|access|secret|private) )$")  # "API key: …"
_REST_OF_NAME = re.compile(r"[A-Za-z0-9_-]{0,40}")
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_LONGEST_NAME = 60
_VALUE = re.compile(
    r"(?:(?P<sign>(?:\\{0,7}[\"'])?\]?(?:(?i: for )[^\s:=]{1,40})?[ \t\0]{0,200}"
    rf"(?P<mark>{_SIGN.replace('→', '→'.encode().decode('latin-1'))})[ \t\0]{{0,200}})"
    rf"|(?P<value>{_BY_VALUE})|(?P<call>\((?=b?[\"']))|(?P<said>[ \t]is:?[ \t]{{1,4}})"
    r"|(?P<comma>[\"'],[ \t]{0,4}(?=[\"']))|(?P<blank>[ \t]{1,4}))"
    r"(?:Secret(?:Str|Bytes)\(|[&!]{1,2}\w{1,20} )?(?:b(?=[\"']))?"
    rf"(?:(?P<escapes>\\{{0,7}})(?P<quote>{_QUOTES})|(?P<bare>[^\s\0\"'`,;&<>|(){{}}\[\]\\]{{1,400}}))",
    re.ASCII,
)
_LONGEST_VALUE = 400
_IN_SENTENCE = re.compile(
    rf"{_SENTENCE}(?P<bare>[^\s\0\"'`,;&<>|(){{}}\[\]\\]{{10,200}})(?=[\"'.]{{0,2}}(?:\s|$))"
)
# A command as a list in a text, ['curl', '-u', …]: like a command line but for what is between.
_BETWEEN_ARGUMENTS = re.compile(rb"[\"'],[ ]?[\"']")
_LISTED_PROGRAM = (
    rf"[\[(,][ ]?[\"'][\w./-]{{0,80}}(?:{'|'.join(PROGRAMS)})[\w-]{{0,20}}[\"'],[ ]?[\"']"
)
_CLOSING = re.compile(r"(\\{0,400})(\"\"\"|'''|[\"'`])")
_CUT = re.compile(r"[^\s\"'`\\]*")
_COUNT = re.compile(r"\{(\d+)(,\d*)?\}")
_RANGE = re.compile(r"\{(\d+),\d{2,}\}")  # with an end it costs RE2 one state for each count
_LONGEST_COUNT = 5
GAPS = re.compile(b"(?:" + ESCAPES_IN_BYTES.pattern + rb"|\0)+")
_PREFIX = re.compile(_BOUNDARY.replace(r"\b|", "").encode())
_NOBODY = (b"git", b"hg", b"svn")  # git@host names nobody


class Found(NamedTuple):
    start: int
    end: int
    kind: str


def find_secrets(text: bytes) -> list[Found]:
    """All secrets of a text, in order, none overlapping; the longer one where two would."""
    if b"\x1b" not in text and b"\0" not in text:
        return _find(text)
    return without_overlaps(text, [*_find(text), *_find_across(text)])


def _find_across(text: bytes) -> list[Found]:
    """Return the secrets that colours or the zero bytes of UTF-16 cut into pieces."""
    starts, shifts, pieces, done, removed = [0], [0], [], 0, 0
    for gap in GAPS.finditer(text):
        pieces.append(text[done : gap.start()])
        removed += gap.end() - gap.start()
        done = gap.end()
        starts.append(done - removed)
        shifts.append(removed)
    pieces.append(text[done:])

    def original(at: int) -> int:
        return at + shifts[bisect_right(starts, at) - 1]

    found = _find(b"".join(pieces))
    return [Found(original(f.start), original(f.end - 1) + 1, f.kind) for f in found]


def _find(text: bytes) -> list[Found]:
    engine = _engine()
    if engine.suspicion.search(text) is None:
        return []
    text = without_escapes(text)
    found = [*engine.shapes(text), *engine.announced_values(text), *engine.laid_out(text)]
    found += engine.of_listed_programs(text)
    return without_overlaps(text, found)


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
        suspicion = rf"(?:{_BOUNDARY}|{_COLOUR})(?:{words})|{others}|{_ANNOUNCED}|{SUSPICION}"
        suspicion += f"|{_LISTED_PROGRAM}"
        suspect = re2_options(memory_bytes=64 << 20)
        suspect.never_capture = True
        self.suspicion: Any = re2.compile(_coarser(suspicion).encode(), options=suspect)
        self._rows: dict[int, Any] = {}

    @functools.cached_property
    def _announced(self) -> Any:
        return self._compile(_RANGE.sub(r"{\1,}", _ANNOUNCED).encode())

    @functools.cached_property
    def _layout(self) -> Any:
        return self._compile(SUSPICION.encode())

    @functools.cached_property
    def _listed_program(self) -> Any:
        return self._compile(_LISTED_PROGRAM.encode())

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
            yield from self._of_row(number, text)

    def of_listed_programs(self, text: bytes) -> Iterator[Found]:
        """Passwords of programs whose arguments stand in a list."""
        if self._listed_program.search(text) is None:
            return
        text = _BETWEEN_ARGUMENTS.sub(lambda match: b" " * len(match[0]), text)
        for number, shape in enumerate(SHAPES):
            if shape.kind == PROGRAM:
                yield from self._of_row(number, text)

    def _of_row(self, number: int, text: bytes) -> Iterator[Found]:
        if number not in self._rows:
            self._rows[number] = self._compile(_expression(SHAPES[number]).encode())
        return _matches(SHAPES[number], self._rows[number], text)

    def laid_out(self, text: bytes) -> Iterator[Found]:
        """Values of tables, lists and blocks."""
        suspects = [match.start() for match in self._layout.finditer(text)]
        for start, end in find_in_layouts(text, suspects) if suspects else ():
            yield Found(start, end, TABLE)

    def announced_values(self, text: bytes) -> Iterator[Found]:
        """Values that the name of a secret stands in front of."""
        at, shown = 0, ""
        while at < len(text):
            candidate = self._announced.search(text, at)
            if candidate is None:
                return
            shown = shown or text.decode("latin-1")
            start, end = candidate.span()
            at = end
            found = _announced(shown, start, end)
            if found is not None:
                yield found
                at = max(at, found.end)


@functools.cache
def _engine() -> _Engine:
    return _Engine()


def _expression(shape: Shape) -> str:
    return f"{_BOUNDARY if shape.begins_a_word else ''}(?:{shape.pattern})"


def _coarser(pattern: str) -> str:
    """The same with long counts cut short: it matches more, and is built three times as fast."""

    def shorter(count: re.Match[str]) -> str:
        least = min(int(count[1]), _LONGEST_COUNT)
        is_exact = count[2] is None and least < _LONGEST_COUNT
        return f"{{{least}}}" if is_exact else f"{{{least},}}"

    return _COUNT.sub(shorter, pattern)


def _matches(shape: Shape, pattern: Any, text: bytes) -> Iterator[Found]:
    for match in pattern.finditer(text):
        group = next((at for at in range(1, pattern.groups + 1) if match[at] is not None), 0)
        start, end = match.span(group)
        if not group and shape.begins_a_word and (prefix := _PREFIX.match(text, start)):
            start = prefix.end()  # run_ghp_….log: the boundary is no part of the secret
        value = text[start:end]
        if shape.kind == URL_LOGIN and value in _NOBODY:
            continue
        if shape.kind == "bearer token" and value.isalpha():
            continue  # "bearer certificates" is prose
        if shape.kind == "authorization header" and len(value) < 8 and value.isalpha():
            continue  # the scheme, or "none"
        yield Found(start, end, shape.kind)


def _announced(text: str, first: int, last: int) -> Found | None:
    """The value of a name that begins between `first` and `last`."""
    for word in TELLING.finditer(text, first, last):
        name_start = _start_of_name(text, word.start())
        rest = _REST_OF_NAME.match(text, word.end())
        name_end = rest.end() if rest else word.end()
        name = text[name_start:name_end]
        if text[name_start - 1 : name_start] == " ":
            spaced = _SPACED_NAME.search(text, max(0, name_start - 8), name_start)
            name = f"{spaced[1]}_{name}" if spaced else name
        found = _linked_value(text, name, name_start, name_end)
        if found is not None or (found := _value_in_sentence(text, name, name_end)) is not None:
            return found
    return None


def _linked_value(text: str, name: str, name_start: int, name_end: int) -> Found | None:
    """The value that a sign, a quote or a blank links to the name."""
    match = _VALUE.match(text, name_end)
    if match is None:
        return None
    is_flag = text[name_start] == "-"
    name = name.lstrip("-")
    start, end = match.span("bare") if match["bare"] is not None else _quoted(text, match)
    value = text[start:end]
    if match["mark"] == ">" and not _is_xml(text, name_start, match["sign"]):
        return None  # a comparison
    if not is_flag and not _may_follow(match, value):
        return None
    is_assigned = match["sign"] == "=" and name.isupper() and name.endswith(("PASS", "PW"))
    if is_secret_value(name, value, is_certain=is_flag or is_assigned):
        return Found(start, end, SECRET_NAME)
    return None


def _is_xml(text: str, name_start: int, sign: str) -> bool:
    """Whether the `>` behind a name ends a tag: <password>, <x:password>, name="password">."""
    return text[name_start - 1 : name_start] in ("<", ":") or sign[0] in "\"'"


def _value_in_sentence(text: str, name: str, name_end: int) -> Found | None:
    """The value at the end of a sentence about a secret: it has to look random."""
    match = _IN_SENTENCE.match(text, name_end) if is_strong_name(name) else None
    is_cut = match is not None and match.end() == len(text)  # MyProject2024 may begin like a key
    if match is None or not is_random(match["bare"], 0.5 if is_cut else 0.4):
        return None
    return Found(*match.span("bare"), SECRET_NAME)


def _may_follow(link: re.Match[str], value: str) -> bool:
    """Whether a value is a secret's by what stands between it and the name.

    "password required", "the secret is out" and ("password", "username") are prose.
    """
    if link["sign"] or link["value"]:
        return True
    if link["blank"] and not link["quote"]:
        return is_key_like(value)
    return _has_digit_and_letter(value)


def _quoted(text: str, opening: re.Match[str]) -> tuple[int, int]:
    """Return where the text behind an opening quote begins and ends.

    It ends at a quote behind no more backslashes than the opening has; quotes inside have more.
    Without one the text is cut off: its first word counts.
    """
    start, quote, escapes = opening.end(), opening["quote"].rstrip(), len(opening["escapes"])
    inside = text[start : start + _LONGEST_VALUE]
    if len(quote) == 1:
        inside = inside.partition("\n")[0]
    for closing in _CLOSING.finditer(inside):
        count = len(closing[1])
        if closing[2].startswith(quote) and (count <= escapes or (not escapes and count % 2 == 0)):
            return start, start + closing.end(1) - min(count, escapes)
    cut = _CUT.match(inside)
    return start, start + (cut.end() if cut else 0)


def _has_digit_and_letter(value: str) -> bool:
    return len(value) >= 6 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _start_of_name(text: str, at: int) -> int:
    lowest = max(0, at - _LONGEST_NAME)
    while at > lowest and text[at - 1] in _NAME_CHARACTERS:
        at -= 1
    is_escape = at > 0 and text[at - 1] == "\\" and text[at] in "nrt"
    return at + 1 if is_escape else at  # "…\\nKey: x" in JSON is a line that begins with Key
