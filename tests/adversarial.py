"""Strings that make a backtracking matcher work as hard as it can, made from the pattern itself.

In: a pattern. Out: texts of about the wanted length, each of which nearly matches: what stands
before a repeated part, the repeated part many times over, and a character that spoils the match.
A matcher that tries alternatives one after the other takes quadratic or exponential time on at
least one of them whenever two of its ways through the text can be confused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

MANY = 16  # a part that may repeat this often is worth repeating
SPOILERS = ("\x00", "!", " ", "\n", "")
_CATEGORY = {
    sre.CATEGORY_DIGIT: "1",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_WORD: "-",
}
_PREFERRED = "a1A_-. /:=\n"


def attacks(pattern: str, length: int) -> Iterator[str]:
    """Texts of about `length` characters that nearly match."""
    tree = list(sre_parse.parse(pattern))
    whole = _sample(tree)
    seeds = {("", whole or "a"), *_pumps(tree, "")}
    for before, pump in sorted(seeds):
        if not pump:
            continue
        times = max(1, (length - len(before)) // len(pump))
        rounds = max(1, length // max(1, len(before) + len(pump)))
        for spoiler in SPOILERS:
            yield before + pump * times + spoiler
        yield (before + pump) * rounds + "\x00"


def _pumps(items: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """What stands before each part that may repeat, and one turn of that part."""
    for op, argument in items:
        for inner in _inner(op, argument):
            yield from _pumps(inner, before)
        if op in _REPEATS and argument[1] >= MANY:
            for turn in _turns(list(argument[2])):
                yield before, turn
        before += _sample([(op, argument)])


def _turns(items: list[Any]) -> Iterator[str]:
    yield _sample(items)
    if len(items) == 1 and items[0][0] is sre.IN:
        # A class meets its neighbours in some of its members only.
        for char in _PREFERRED:
            if _holds(items[0][1], char):
                yield char


_REPEATS = {
    getattr(sre, name)
    for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
    if hasattr(sre, name)
}


def _inner(op: Any, argument: Any) -> Iterator[list[Any]]:
    if op in _REPEATS:
        yield list(argument[2])
    elif op is sre.SUBPATTERN:
        yield list(argument[-1])
    elif op is sre.BRANCH:
        for branch in argument[1]:
            yield list(branch)
    elif op in (sre.ASSERT, sre.ASSERT_NOT):
        yield list(argument[1])


def _sample(items: list[Any]) -> str:
    """A short text that the items match, as far as it can be told from them alone."""
    text = ""
    for op, argument in items:
        if op is sre.LITERAL:
            text += chr(argument)
        elif op is sre.NOT_LITERAL:
            text += "b" if argument == ord("a") else "a"
        elif op is sre.ANY:
            text += "a"
        elif op is sre.IN:
            text += next((char for char in _members(argument)), "")
        elif op in _REPEATS:
            text += _sample(list(argument[2])) * max(1, argument[0])
        elif op is sre.SUBPATTERN:
            text += _sample(list(argument[-1]))
        elif op is sre.BRANCH:
            text += _sample(list(argument[1][0]))
        elif op is sre.CATEGORY:
            text += _CATEGORY.get(argument, "a")
    return text


def _members(items: list[Any]) -> Iterator[str]:
    for char in _PREFERRED:
        if _holds(items, char):
            yield char
    for op, argument in items:
        if op is sre.LITERAL:
            yield chr(argument)
        elif op is sre.RANGE:
            yield chr(argument[0])


def _holds(items: list[Any], char: str) -> bool:
    is_negated = bool(items) and items[0][0] is sre.NEGATE
    found = False
    for op, argument in items:
        if op is sre.LITERAL:
            found |= char == chr(argument)
        elif op is sre.RANGE:
            found |= argument[0] <= ord(char) <= argument[1]
        elif op is sre.CATEGORY:
            is_word = char.isalnum() or char == "_"
            found |= {
                sre.CATEGORY_DIGIT: char.isdigit(),
                sre.CATEGORY_NOT_DIGIT: not char.isdigit(),
                sre.CATEGORY_SPACE: char.isspace(),
                sre.CATEGORY_NOT_SPACE: not char.isspace(),
                sre.CATEGORY_WORD: is_word,
                sre.CATEGORY_NOT_WORD: not is_word,
            }.get(argument, False)
    return found != is_negated
