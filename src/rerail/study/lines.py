"""On which line of a TOML text does a key stand?

In: the text and a path of keys such as ("axes", "--lr"). Out: a line number from 1, of the nearest
part of the path that can be found. The parser of the standard library does not say, and a person
who is told "line 12" does not have to search. Values are passed over, not understood: the text is
valid TOML by the time that anybody asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Path = tuple[str | int, ...]

_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=")
_PART = re.compile(_KEY_PART)
# Strings and comments, so that brackets inside them are not counted.
_OPAQUE = re.compile(
    r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*$',
)


class KeyLines:
    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._read(text)

    def line_of(self, path: Sequence[str | int]) -> int:
        """Of the longest beginning of this path that has a line; 1 if none has."""
        parts = tuple(path)
        while parts:
            if parts in self._lines:
                return self._lines[parts]
            parts = parts[:-1]
        return 1

    def _read(self, text: str) -> None:
        prefix: Path = ()
        counts: dict[Path, int] = {}
        depth = 0
        closing = ""  # the quotes that end a string over several lines
        for number, line in enumerate(text.splitlines(), start=1):
            rest = line
            if closing:
                _, found, rest = rest.partition(closing)
                if not found:
                    continue
                closing = ""
            elif depth == 0:
                if header := _HEADER.match(rest):
                    prefix = _parts(header[2])
                    if header[1] == "[[":
                        counts[prefix] = counts.get(prefix, -1) + 1
                        self._lines.setdefault(prefix, number)
                        prefix = (*prefix, counts[prefix])
                    self._lines.setdefault(prefix, number)
                    continue
                if assignment := _ASSIGNMENT.match(rest):
                    path = (*prefix, *_parts(assignment[1]))
                    for end in range(len(prefix) + 1, len(path) + 1):
                        self._lines.setdefault(path[:end], number)
                    rest = rest[assignment.end() :]
            depth, closing = _open_after(rest, depth)


def _open_after(rest: str, depth: int) -> tuple[int, str]:
    """How many brackets are open after this, and which string is."""
    at = 0
    while found := _OPAQUE.search(rest, at):
        depth += _balance(rest[at : found.start()])
        token = found[0]
        at = found.end()
        if token in ('"""', "'''"):
            end = rest.find(token, at)
            if end < 0:
                return depth, token
            at = end + 3
    return max(0, depth + _balance(rest[at:])), ""


def _balance(text: str) -> int:
    return sum(text.count(c) for c in "[{") - sum(text.count(c) for c in "]}")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(_unquoted(part) for part in _PART.findall(dotted))


def _unquoted(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if part.startswith('"'):
        return re.sub(r"\\(.)", r"\1", part[1:-1])
    return part
