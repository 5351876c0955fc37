"""Secrets that were recognised once, to be masked wherever they occur: as values.

In: values with their kind. Out: one mask per value (`[secret-3]`, numbered in order of discovery)
and the places in any text where a known value stands, also URL-quoted, JSON-escaped or in base64.
A value that is a short plain word is masked only where its name announces it: a password
`training` would otherwise take half the log with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rerail.platform.patterns import re2_options
from rerail.privacy.names import MASKED, PRIVATE_KEY, URL_LOGIN

if TYPE_CHECKING:
    from rerail.privacy.finding import Found

UNNUMBERED = "[secret]"
_SHORTEST = 6
_SHORTEST_PLAIN_WORD = 12
_SHORTEST_KEY_LINE = 16
_MOST = 1000  # a log that prints a new token on every line must not fill the memory
_MANY = 256
_FEW = 16  # up to so many forms, plain searching is quicker than building an automaton
_PADDED = re.compile(rb"(\[secret(?:-\d+)?\])\*+")


class KnownSecrets:
    def __init__(self, tell: Callable[[int, str, str], None] | None = None) -> None:
        """`tell` hears of each new value: its number, itself, its kind."""
        self._tell = tell
        self._owner = os.getpid()
        self._numbers: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self._forms: dict[bytes, str] = {}
        self._pattern: Any = None

    def values(self) -> list[str]:
        return list(self._numbers)

    def load(self, numbered: Mapping[int, tuple[str, str]]) -> None:
        """Values with their kinds that another process recognised, under the numbers it gave."""
        for number, (value, kind) in sorted(numbered.items()):
            if value not in self._numbers:
                self._keep(value, number, kind)

    def learn(self, value: str, kind: str) -> None:
        """Remember a value; of a private key each line, of a login each part as well."""
        self.mask_of(value, kind)
        if kind == PRIVATE_KEY:
            for line in re.split(r"\s+|\\n", value):
                if len(line) >= _SHORTEST_KEY_LINE and not line.startswith("-----"):
                    self.mask_of(line, kind)
        if kind == URL_LOGIN and ":" in value:
            self.mask_of(value.split(":", 1)[1], kind)

    def mask_of(self, value: str, kind: str) -> str:
        """The mask of a value, new or known. A forked child gives no numbers of its own."""
        if MASKED.fullmatch(value):
            return value
        number = self._numbers.get(value)
        if number is None:
            if len(self._numbers) >= _MOST or os.getpid() != self._owner:
                return UNNUMBERED
            number = max(self._numbers.values(), default=0) + 1
            self._keep(value, number, kind)
            if self._tell is not None:
                self._tell(number, value, kind)
        return f"[secret-{number}]"

    def _keep(self, value: str, number: int, kind: str) -> None:
        self._numbers[value] = number
        self.kinds[value] = kind
        if is_worth_finding(value):
            for form in forms_of(value):
                self._forms.setdefault(form, value)
            self._pattern = None

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
        if self._pattern is None:
            self._pattern = _alternatives(sorted(self._forms, key=len, reverse=True))
        return [
            Found(match.start(), match.end(), self.kinds[self._forms[match[0]]])
            for match in self._pattern.finditer(text)
        ]


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
