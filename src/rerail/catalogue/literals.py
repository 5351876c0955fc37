"""Which fixed words must a text contain for a pattern to match it at all?

`required_literals(pattern)` returns a set of lower-case strings, one of which is in every text
that the pattern matches, or an empty set when nothing can be promised. A search for these words
finds the few lines of a large log worth the full patterns. Runs of white space count as one
space, because `spaced` lets a space of a pattern match a line break too: messages arrive wrapped.
"""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

SHORTEST = 3
_MOST_BRANCHES = 48


def spaced(pattern: str) -> str:
    r"""The pattern with each plain space outside a character class turned into \s+."""
    out: list[str] = []
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            out.append(pattern[at : at + 2])
            at += 2
            continue
        if in_class:
            in_class = char != "]" or pattern[at - 1] == "["
        elif char == "[":
            in_class = True
        elif char == " ":
            follows = pattern[at + 1 : at + 2]
            out.append(r"\s" if follows in ("*", "+", "?", "{") else r"\s+")
            at += 1
            continue
        out.append(char)
        at += 1
    return "".join(out)


def required_literals(pattern: str) -> frozenset[str]:
    parsed: Any = sre_parse.parse(pattern)
    return frozenset(_best(list(parsed)) or ())


def _score(literals: set[str]) -> float:
    """Longer is rarer; a choice among many is as common as its commonest member."""
    return min(len(literal) for literal in literals) - 0.2 * len(literals)


def _best(items: list[Any]) -> set[str] | None:
    """The most telling set of alternatives that a sequence of parsed items demands."""
    found: list[set[str]] = []
    run = ""

    def close() -> None:
        nonlocal run
        literal = re.sub(r"\s+", " ", run).strip().lower()
        if len(literal) >= SHORTEST:
            found.append({literal})
        run = ""

    for op, argument in items:
        if op is sre.LITERAL and argument < 128:
            run += chr(argument)
        elif _is_space(op, argument):
            run += " "
        elif op is sre.SUBPATTERN:
            inner = list(argument[-1])
            if all(op is sre.LITERAL and code < 128 for op, code in inner):
                run += "".join(chr(code) for _, code in inner)
                continue
            close()
            if literals := _best(inner):
                found.append(literals)
        elif op is sre.BRANCH:
            close()
            branches = [_best(list(branch)) for branch in argument[1]]
            if all(branches):
                union: set[str] = set().union(*(branch for branch in branches if branch))
                if len(union) <= _MOST_BRANCHES:
                    found.append(union)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            close()
            if argument[0] >= 1 and (literals := _best(list(argument[2]))):
                found.append(literals)
        elif op is sre.AT:
            continue  # an anchor neither adds text nor breaks a run
        else:
            close()
    close()
    return max(found, key=_score) if found else None


def _is_space(op: Any, argument: Any) -> bool:
    r"""\s+, \s and a literal space all stand for one space of the collapsed text."""
    if op is sre.MAX_REPEAT and argument[0] == 1:
        inner = list(argument[2])
        return len(inner) == 1 and _is_space(*inner[0])
    return bool(op is sre.IN and list(argument) == [(sre.CATEGORY, sre.CATEGORY_SPACE)])
