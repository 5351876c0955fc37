"""Where in a text is a signature of the catalogue worth a try?

In: clean lines and signatures. Out: for each signature, the stretches of the text around the words
that it requires. Promises bounded work, whatever stands in the text: a text in which more than
MANY_WORDS of the required words may occur is searched in part, its start and its end; of one word
at most MOST_PLACES lines are tried, and of all signatures together as much as BUDGET_CHARS pays
for. Where more is asked for, each signature has an equal share, for its first and last stretches.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from rerail.catalogue import Signature
from rerail.evidence.text.lines import Line

MOST_PLACES = 160  # lines with one word that are tried: the first half, and the last
MANY_WORDS = 500  # that may occur in a text; with more, less of the text is searched for each
BUDGET_CHARS = 6 << 20  # characters tried in one text, all signatures together
TRY_CHARS = 500  # what a try costs beside its characters, in characters
WRAPPED_CHARS = 256 << 10  # up to this size, messages cut by line breaks are looked for too
_BEFORE_CHARS, _AFTER_CHARS = 4096, 8192  # looked at around a word, where lines are very long
_WORD = re.compile(r"[^\W\d]\w*")


class Stretch(NamedTuple):
    start: int
    end: int

    @property
    def cost(self) -> int:
        return self.end - self.start + TRY_CHARS


@cache
def _parts(literal: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(literal))


class Text:
    """All lines as one string, with the way back from an offset to the line."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.text = "\n".join(line.text for line in lines)
        self.lower = self.text.lower()
        if len(self.lower) != len(self.text):  # a few characters change length; offsets must not
            self.lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in self.text)
        # Logs repeat themselves: their different words are few, and a literal whose parts are not
        # among them need not be looked for in the whole text.
        self._words = "\n".join(set(_WORD.findall(self.lower)))
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line.text) + 1)

    def may_contain(self, literal: str) -> bool:
        return all(part in self._words for part in _parts(literal))

    def is_code_at(self, offset: int) -> bool:
        """Whether the line is one that a traceback quotes: the one behind `File "x.py", line 3`."""
        begins = self.text.rfind("\n", 0, offset) + 1
        before = self.text[self.text.rfind("\n", 0, max(begins - 1, 0)) + 1 : begins].lstrip()
        return before.startswith('File "') and ", line " in before

    def line_at(self, offset: int) -> Line:
        return self.lines[self._index_at(offset)]

    def places(self, literal: str, searched: int) -> list[tuple[int, Stretch]]:
        """Where the words stand, once for each line or each window of a very long one.

        `searched`: how many characters may be searched, a quarter at the start, the others at the
        end of the text.
        """
        is_whole = searched >= len(self.lower)
        head = len(self.lower) if is_whole else searched // 4
        first = list(itertools.islice(self._forward(literal, head), MOST_PLACES + 1))
        if is_whole and len(first) <= MOST_PLACES:
            return first
        del first[MOST_PLACES // 2 :]
        after = first[-1][0] + 1 if first else 0
        tail = 0 if is_whole else len(self.lower) - (searched - head)
        last = self._backward(literal, max(after, tail))
        return first + list(itertools.islice(last, MOST_PLACES // 2))[::-1]

    def _forward(self, literal: str, end: int) -> Iterator[tuple[int, Stretch]]:
        at = self.lower.find(literal, 0, end)
        while at >= 0:
            line = self._index_at(at)
            window = self._window(at, line)
            yield at, window
            at = self.lower.find(literal, min(window.end, self._starts[line + 1]), end)

    def _backward(self, literal: str, start: int) -> Iterator[tuple[int, Stretch]]:
        at = self.lower.rfind(literal, start)
        while at >= 0:
            line = self._index_at(at)
            yield at, self._window(at, line)
            end = max(self._starts[line], at - _BEFORE_CHARS)
            at = self.lower.rfind(literal, start, end)

    def _window(self, offset: int, line: int) -> Stretch:
        """From the line before to two lines after the offset; less where lines are very long."""
        start, end = self._starts[max(0, line - 1)], self._starts[min(len(self.lines), line + 3)]
        return Stretch(max(start, offset - _BEFORE_CHARS), min(end, offset + _AFTER_CHARS))

    def wrapped(self, literal: str) -> Iterator[tuple[int, Stretch]]:
        """Whole lines around the words where line breaks stand between them."""
        flat, starts, starts_in_flat = self._flat
        at = flat.find(literal)
        while at >= 0:
            offset = starts[bisect.bisect_right(starts_in_flat, at) - 1]
            start = self._starts[self._index_at(max(0, offset - _BEFORE_CHARS))]
            end = self._next_line(offset + _AFTER_CHARS)
            yield offset, Stretch(start, end)
            after = bisect.bisect_left(starts, end)
            at = flat.find(literal, starts_in_flat[after]) if after < len(starts) else -1

    @cached_property
    def _flat(self) -> tuple[str, list[int], list[int]]:
        """The text in one line, and where each of its words begins in the text and in that line."""
        if len(self.text) > WRAPPED_CHARS:
            return "", [], []
        words = self.lower.split()
        starts = [found.start() for found in re.finditer(r"\S+", self.lower)]
        in_flat = itertools.accumulate((len(word) + 1 for word in words), initial=0)
        return " ".join(words), starts, list(in_flat)[:-1]

    def _index_at(self, offset: int) -> int:
        return min(bisect.bisect_right(self._starts, offset) - 1, len(self.lines) - 1)

    def _next_line(self, offset: int) -> int:
        """Where the next line begins."""
        return self._starts[self._index_at(offset) + 1]


class Places(NamedTuple):
    """Where one signature is tried: for each of its words the offsets, and the stretch of each."""

    by_word: list[list[tuple[int, Stretch]]]
    are_wrapped: bool  # the words are cut by line breaks: any number of matches in one stretch

    def stretches(self) -> list[Stretch]:
        return sorted({stretch for places in self.by_word for _, stretch in places})

    def within(self, share: int) -> Places:
        """Those that cost no more than the share: a quarter of it at the start, then the end."""
        stretches = self.stretches()
        if sum(stretch.cost for stretch in stretches) <= share:
            return self
        first = _affordable(stretches, share // 4)
        left = share - sum(stretch.cost for stretch in first)
        kept = {*first, *_affordable(stretches[len(first) :][::-1], left)}
        by_word = [[one for one in places if one[1] in kept] for places in self.by_word]
        return Places(by_word, self.are_wrapped)


def find_places(signatures: Sequence[Signature], text: Text) -> dict[int, Places]:
    """By the `id` of each signature that is worth a try at all: where."""
    words = {
        id(one): present
        for one in signatures
        if (present := [literal for literal in one.literals if text.may_contain(literal)])
    }
    searched = len(text.text)
    if (count := sum(map(len, words.values()))) > MANY_WORDS:
        searched = max(WRAPPED_CHARS, searched * MANY_WORDS // count)
    found = {
        key: places
        for key, present in words.items()
        if (places := _places(present, text, searched))
    }
    costs = {key: sum(s.cost for s in places.stretches()) for key, places in found.items()}
    if sum(costs.values()) <= BUDGET_CHARS:
        return found
    share = _equal_share(sorted(costs.values()))
    return {key: places.within(share) for key, places in found.items()}


def _places(words: Sequence[str], text: Text, searched: int) -> Places | None:
    if by_word := [places for word in words if (places := text.places(word, searched))]:
        return Places(by_word, False)
    if by_word := [places for word in words if (places := list(text.wrapped(word)))]:
        return Places(by_word, True)
    return None


def _equal_share(costs: Sequence[int]) -> int:
    """Of costs in rising order: the share of which nobody may use more to keep the budget."""
    budget = BUDGET_CHARS
    for at, cost in enumerate(costs):
        left = len(costs) - at
        if cost * left > budget:
            return budget // left
        budget -= cost
    return budget


def _affordable(stretches: Sequence[Stretch], share: int) -> list[Stretch]:
    """As many from the start as the share pays for."""
    costs = itertools.accumulate(stretch.cost for stretch in stretches)
    return [stretch for stretch, cost in zip(stretches, costs, strict=True) if cost <= share]
