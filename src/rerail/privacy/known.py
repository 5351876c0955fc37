"""Secrets that were recognised once, to be masked wherever they occur: as values.

In: values with their kind. Out: one mask per value (`[secret-3]`, numbered in order of discovery)
and the places in any text where a known value stands, also URL-quoted, JSON-escaped or in base64.
A value that is a short plain word is masked only where its name announces it: a password
`training` would otherwise take half the log with it.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rerail.platform.patterns import re2_options
from rerail.privacy.names import (
    MASKED,
    NOTIFIED_ADDRESS,
    PRIVATE_KEY,
    PROGRAM,
    SECRET_NAME,
    TABLE,
    URL_LOGIN,
)

if TYPE_CHECKING:
    from rerail.privacy.finding import Found

UNNUMBERED = "[secret]"
_SHORTEST = 6
_SHORTEST_PLAIN_WORD = 12
_SHORTEST_KEY_LINE = 16
# A log that prints a new token on every line must not fill the memory. A value that has a shape is
# found again by its shape; a value that only its name announced is not, so more of those are kept.
_MOST_OF_SHAPES = 1000
_MOST_BY_NAME = 10_000
_BY_NAME = frozenset({SECRET_NAME, URL_LOGIN, PROGRAM, NOTIFIED_ADDRESS, PRIVATE_KEY, TABLE})
_MANY = 256
_FEW = 16  # up to so many forms, plain searching is quicker than building an automaton
_MOST_LAYERED = 1024  # with more, the automata outgrow their memory and take minutes a MB
_PADDED = re.compile(rb"(\[secret(?:-\d+)?\])\*+")


class _Layer(NamedTuple):
    forms: list[bytes]
    pattern: Any  # of all of them


class KnownSecrets:
    def __init__(self, tell: Callable[[int, str, str], None] | None = None) -> None:
        """`tell` hears of each new value: its number, itself, its kind."""
        self._tell = tell
        self._owner = os.getpid()
        self._numbers: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self._forms: dict[bytes, str] = {}
        self._last_number = 0
        self._count_by_name = 0
        self._layers: list[_Layer] = []
        self._unlayered: list[bytes] = []  # forms that are in no layer yet
        # Once there are too many for layers: how long the forms are that end with six bytes.
        self._lengths: dict[bytes, set[int]] = {}

    def count(self) -> int:
        return len(self._numbers)

    def values(self) -> list[str]:
        return list(self._numbers)

    def load(self, numbered: Mapping[int, tuple[str, str]]) -> None:
        """Values with their kinds that another process recognised, under the numbers it gave."""
        for number, (value, kind) in sorted(numbered.items()):
            if value not in self._numbers:
                self._keep(value, number, kind)

    def let_number(self, pid: int) -> None:
        """Let this process give new values their numbers; its copy of these values goes on."""
        self._owner = pid

    def learn(self, value: str, kind: str) -> None:
        """Remember a value; of a private key each line, of a login each part as well."""
        self.learn_mask(value, kind)

    def learn_mask(self, value: str, kind: str) -> str:
        """Remember a value and return its mask."""
        mask = self.mask_of(value, kind)
        if kind == PRIVATE_KEY:
            for line in re.split(r"\s+|\\n", value):
                if len(line) >= _SHORTEST_KEY_LINE and not line.startswith("-----"):
                    self.mask_of(line, kind)
        if kind == URL_LOGIN and ":" in value:
            self.mask_of(value.split(":", 1)[1], kind)
        return mask

    def mask_of(self, value: str, kind: str) -> str:
        """The mask of a value, new or known. Only one process gives numbers."""
        number = self._numbers.get(value)
        if number is None:
            if value[:1] in "[*hu" and MASKED.fullmatch(value):
                return value
            if self.is_full(kind) or os.getpid() != self._owner:
                return UNNUMBERED
            number = self._last_number + 1
            self._keep(value, number, kind)
            if self._tell is not None:
                self._tell(number, value, kind)
        return f"[secret-{number}]"

    def is_full(self, kind: str) -> bool:
        """Whether another value of this kind gets no number."""
        if kind in _BY_NAME:
            return self._count_by_name >= _MOST_BY_NAME
        return len(self._numbers) - self._count_by_name >= _MOST_OF_SHAPES

    def _keep(self, value: str, number: int, kind: str) -> None:
        self._numbers[value] = number
        self._last_number = max(self._last_number, number)
        self.kinds[value] = kind
        self._count_by_name += kind in _BY_NAME
        if is_worth_finding(value):
            for form in forms_of(value):
                if form not in self._forms:
                    self._forms[form] = value
                    self._unlayered.append(form)

    def secret_of(self, form: bytes) -> str | None:
        """Which known value a text stands for."""
        return self._forms.get(form)

    def may_be_in(self, text: bytes) -> bool:
        """False is certain."""
        return len(self._forms) > _MANY or any(form in text for form in self._forms)

    def find(self, text: bytes) -> list[Found]:
        from rerail.privacy.finding import Found

        if len(self._forms) <= _FEW:
            return [
                Found(at, at + len(form), self.kinds[value])
                for form, value in self._forms.items()
                for at in _occurrences(text, form)
            ]
        if len(self._forms) > _MOST_LAYERED:
            return self._find_by_ending(text)
        self._add_layer()
        return [
            Found(match.start(), match.end(), self.kinds[self._forms[match[0]]])
            for layer in self._layers
            for match in layer.pattern.finditer(text)
        ]

    def _find_by_ending(self, text: bytes) -> list[Found]:
        """Look up every six bytes of the text: the cost does not grow with the number of forms.

        Endings tell more than beginnings, which are those of a service (`sk-ant-`).
        """
        from rerail.privacy.finding import Found

        self._layers.clear()
        for form in self._forms if not self._lengths else self._unlayered:
            self._lengths.setdefault(form[-_SHORTEST:], set()).add(len(form))
        self._unlayered.clear()
        ends = [
            (at + _SHORTEST, length)
            for ending in self._lengths.keys() & _windows(text)
            for at in _occurrences(text, ending)
            for length in self._lengths[ending]
        ]
        return [
            Found(end - length, end, self.kinds[self._forms[text[end - length : end]]])
            for end, length in ends
            if end >= length and text[end - length : end] in self._forms
        ]

    def _add_layer(self) -> None:
        """Put the new forms into a layer, merged with the layers that are not twice as large.

        So a form is compiled again a logarithmic number of times, however many become known.
        """
        if not self._unlayered:
            return
        forms, self._unlayered = self._unlayered, []
        while self._layers and len(self._layers[-1].forms) < 2 * len(forms):
            forms = self._layers.pop().forms + forms
        self._layers.append(_Layer(forms, _alternatives(sorted(forms, key=len, reverse=True))))


def _windows(text: bytes) -> Iterator[bytes]:
    """Yield every six bytes of a text, by one call to `struct` for each way to cut it."""
    cuts = range(min(_SHORTEST, len(text)))
    counts = ((len(text) - at) // _SHORTEST for at in cuts)
    return itertools.chain.from_iterable(
        struct.unpack_from(f"{_SHORTEST}s" * count, text, at)
        for at, count in zip(cuts, counts, strict=True)
    )


def _occurrences(text: bytes, form: bytes) -> list[int]:
    found = []
    at = text.find(form)
    while at >= 0:
        found.append(at)
        at = text.find(form, at + len(form))
    return found


def _alternatives(forms: list[bytes]) -> Any:
    import re2

    options = re2_options(memory_bytes=64 << 20, for_bytes=True)
    return re2.compile(b"|".join(re2.escape(form) for form in forms), options)


def is_worth_finding(value: str) -> bool:
    if len(value) < _SHORTEST:
        return False
    return not value.isalpha() or len(value) >= _SHORTEST_PLAIN_WORD


def forms_of(value: str) -> list[bytes]:
    """How the same value looks in a URL, in JSON and in base64."""
    import base64  # late: a run without secrets needs none of these
    import json
    from urllib.parse import quote, quote_plus

    raw = value.encode("utf-8", "surrogateescape" if _is_from_the_system(value) else "replace")
    encoded = base64.b64encode(raw)
    forms = [
        raw,
        quote(raw, safe="").encode(),
        quote_plus(raw).encode(),
        json.dumps(value)[1:-1].encode(),
        json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass"),
        encoded,
        encoded.rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
    ]
    return [form for form in dict.fromkeys(forms) if len(form) >= _SHORTEST]


def _is_from_the_system(value: str) -> bool:
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def without_padding(text: bytes) -> bytes:
    """Masks in recorded output are filled up to the length of what they hide."""
    return _PADDED.sub(rb"\1", text) if b"]*" in text else text
