"""What can be left away from a command? Its words come in; smaller commands go out.

Pure: `still_fails` is asked, and how it knows is its own affair. Pieces are options with their
values, arguments of their own, and assignments in front (`env NAME=value`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.platform.command_line import (
    innermost_at,
    is_assignment,
    program_call,
    program_name,
    shell_text_at,
)
from rerail.platform.patterns import linear

_STEPS = linear(
    r"--?(?:(?:max|num|n|train|total)[-_])*(?:steps?|iters?|iterations|batches|epochs?)"
)


@dataclass(frozen=True)
class Pieces:
    """A command as a head that stays and pieces that may go."""

    head: tuple[str, ...]
    pieces: tuple[tuple[str, ...], ...]
    assignments: tuple[str, ...] = ()  # of `env`, in front

    def command(self, kept: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        assigned = tuple(word for piece in kept if piece[0] in self.assignments for word in piece)
        rest = tuple(w for piece in kept if piece[0] not in self.assignments for w in piece)
        return (*(("env", *assigned) if assigned else ()), *self.head, *rest)


def take_apart(command: Sequence[str]) -> Pieces:
    words = list(command)
    assignments: list[str] = []
    if words and program_name(words[0]) == "env":
        at = 1
        while at < len(words) and is_assignment(words[at]):
            assignments.append(words[at])
            at += 1
        if at < len(words) and not words[at].startswith("-"):
            words = words[at:]
        else:
            assignments = []  # options of env itself: it stays whole
    length = _head_length(words)
    pieces: list[tuple[str, ...]] = [(assignment,) for assignment in assignments]
    for word in words[length:]:
        is_option = re.match(r"--?[A-Za-z]", word) is not None
        before = pieces[-1] if len(pieces) > len(assignments) else ()
        if before and not is_option and before[0].startswith("-") and "=" not in before[0]:
            pieces[-1] = (*before, word)
        else:
            pieces.append((word,))
    return Pieces(tuple(words[:length]), tuple(pieces), tuple(assignments))


def _head_length(words: Sequence[str]) -> int:
    """The program, its interpreter and what tells the interpreter which program it is."""
    if not words:
        return 0
    if shell_text_at(words, innermost_at(words)) is not None:
        return len(words)  # a script in a word: its parts are not ours to cut
    call = program_call(words)
    if call is not None:
        return call.arguments_at
    script = next((i for i, w in enumerate(words[1:], 1) if w.endswith((".py", ".sh"))), None)
    return 1 if script is None else script + 1


def fewest(
    pieces: Sequence[tuple[str, ...]],
    still_fails: Callable[[list[tuple[str, ...]]], bool],
) -> list[tuple[str, ...]]:
    """Zeller's ddmin: a part of the pieces of which none can be left away alone."""
    kept = list(pieces)
    if kept and still_fails([]):
        return []
    parts = 2
    while len(kept) >= 2:
        size = math.ceil(len(kept) / parts)
        for start in range(0, len(kept), size):
            smaller = kept[:start] + kept[start + size :]
            if smaller and still_fails(smaller):
                kept, parts = smaller, max(parts - 1, 2)
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return kept


def smallest(most: int, still_fails: Callable[[int], bool], *, coarse: float = 1.5) -> int:
    """The smallest number below `most` that still fails, to a factor of `coarse`; else `most`."""
    works, fails = 0, most
    while fails > 1 and fails > coarse * max(works, 1):
        middle = max(1, round(math.sqrt(max(works, 1) * fails)))
        if middle >= fails:
            break
        if still_fails(middle):
            fails = middle
        else:
            works = middle
            if works + 1 >= fails:
                break
    return fails


def length_options(command: Sequence[str], program_text: str) -> list[str]:
    """Options that say how long it runs: those given, else those that the program's text names."""
    given = [w.partition("=")[0] for w in command if _STEPS.fullmatch(w.partition("=")[0])]
    if given:
        return list(dict.fromkeys(given))
    named = re.findall(r"""["'](--?[A-Za-z][\w-]*)["']""", program_text)
    return [name for name in dict.fromkeys(named) if _STEPS.fullmatch(name)][:2]
