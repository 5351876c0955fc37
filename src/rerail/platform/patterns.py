"""Patterns on text that rerail did not write, none of which that text can make slow.

`linear(pattern)` is matched by RE2, in time linear in the text whatever the pattern and the text
are. RE2 knows no look-around and no back-references; `\\d`, `\\w`, `\\s` and `\\b` mean ASCII.
`short(pattern, most)` is matched by Python's own engine, look-around included, on the first `most`
characters only: for the few places where a line's beginning decides and RE2 cannot say it. Both
have the methods of `re.Pattern` (a match's `start` and `end` take numbers of groups, not names),
and are compiled when they are first used: most patterns of the house are not needed in one command.

Why not Python's engine everywhere: it tries alternatives one after the other, and forty blank
lines in a log were enough to make one pattern of the catalogue run for longer than the training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_MEMORY_BYTES = 32 << 20  # of RE2's automata, of one pattern; past it RE2 is slower, still linear


class LinearPattern:
    """A pattern that RE2 matches; the methods are those of `re.Pattern`."""

    __slots__ = ("_compiled", "flags", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags
        self._compiled: re.Pattern[str] | None = None

    def compile(self) -> re.Pattern[str]:
        """The engine's own object; raises `re.error` for what it cannot match in linear time."""
        if self._compiled is None:
            self._compiled = _by_re2(self.pattern, self.flags)
        return self._compiled

    def search(self, text: str) -> re.Match[str] | None:
        compiled = self._compiled or self.compile()
        try:
            return compiled.search(text)
        except UnicodeEncodeError:
            return compiled.search(without_surrogates(text))

    def match(self, text: str) -> re.Match[str] | None:
        compiled = self._compiled or self.compile()
        try:
            return compiled.match(text)
        except UnicodeEncodeError:
            return compiled.match(without_surrogates(text))

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compile().fullmatch(without_surrogates(text))

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.compile().finditer(without_surrogates(text))

    def findall(self, text: str) -> list[Any]:
        return self.compile().findall(without_surrogates(text))

    def sub(self, by: str | Callable[[re.Match[str]], str], text: str) -> str:
        return self.compile().sub(by, without_surrogates(text))

    def split(self, text: str) -> list[str | Any]:
        return self.compile().split(without_surrogates(text))

    @property
    def groupindex(self) -> dict[str, int]:
        return dict(self.compile().groupindex)


class ShortPattern:
    """A pattern of Python's own engine on the first `most` characters of a text."""

    __slots__ = ("_compiled", "flags", "most", "pattern")

    def __init__(self, pattern: str, most: int, flags: int = 0) -> None:
        self.pattern = pattern
        self.most = most
        self.flags = flags
        self._compiled: re.Pattern[str] | None = None

    def compile(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self.flags)
        return self._compiled

    def search(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compile()).search(text, 0, self.most)

    def match(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compile()).match(text, 0, self.most)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compile()).fullmatch(text) if self._fits(text) else None

    def findall(self, text: str) -> list[Any]:
        return (self._compiled or self.compile()).findall(text, 0, self.most)

    def _fits(self, text: str) -> bool:
        return len(text) <= self.most


class LinearSet:
    """Which of many patterns may match a text? One pass tells, where each alone would take its own.

    A counted repetition (`[^\\n]{0,30}`) counts as any number: many such in one automaton would
    make it too large to be fast. What is named may match therefore, and nothing else can.
    """

    __slots__ = ("_compiled", "_patterns")

    def __init__(self, patterns: Sequence[LinearPattern]) -> None:
        self._patterns = patterns
        self._compiled: Any = None

    def possible(self, text: str) -> Sequence[int]:
        """The positions of the patterns that may match somewhere in the text, in order."""
        if self._compiled is None:
            self._compiled = self._compile()
        if not self._compiled:
            return range(len(self._patterns))
        return sorted(self._compiled.Match(without_surrogates(text)) or ())

    def _compile(self) -> Any:
        try:
            import re2
        except ImportError:  # any may match
            return False
        whole = re2.Set.SearchSet(re2_options())
        for pattern in self._patterns:
            whole.Add(_with_flags(_COUNTED.sub("]*", pattern.pattern), pattern.flags))
        whole.Compile()
        return whole


_COUNTED = re.compile(r"\]\{0,\d+\}")


def linear(pattern: str, flags: int = 0) -> LinearPattern:
    return LinearPattern(pattern, flags)


def short(pattern: str, most: int, flags: int = 0) -> ShortPattern:
    return ShortPattern(pattern, most, flags)


def without_surrogates(text: str) -> str:
    """The text with `?` for each half of a character that no encoding can write; same length."""
    if text.isascii():
        return text
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")


def re2_options(*, memory_bytes: int = _MEMORY_BYTES, for_bytes: bool = False) -> Any:
    """How RE2 compiles; `memory_bytes` is for the automata of one pattern."""
    import re2

    options = re2.Options()
    options.max_mem = memory_bytes
    options.log_errors = False  # it would write to the user's terminal
    if for_bytes:
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _with_flags(pattern: str, flags: int) -> str:
    letters = "".join(letter for flag, letter in _FLAGS.items() if flags & flag)
    return f"(?{letters}){pattern}" if letters else pattern


def _by_re2(pattern: str, flags: int) -> re.Pattern[str]:
    text = _with_flags(pattern, flags)
    try:
        import re2
    except ImportError:  # no build of RE2 here: the same answers, without the promise of time
        return re.compile(text)
    try:
        return cast("re.Pattern[str]", re2.compile(text, re2_options()))
    except re2.error as error:
        said = error.args[0] if error.args else ""
        shown = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise re.error(f"RE2 cannot match it in linear time: {shown}", pattern) from None
