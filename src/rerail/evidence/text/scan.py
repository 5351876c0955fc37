"""Reads a log of any size into the lines worth looking at, in bounded memory.

A file up to WHOLE_BYTES and MOST_LINES is kept whole. Of a larger one the head and the tail are
kept, and a stretch around every place where a word of the catalogue's signatures occurs; one pass
with one automaton finds them. A word that occurs thousands of times in one log is part of its
ordinary chatter: after the first of them it is dropped from the search, and only the tail sees it
again. Line numbers are those of the file throughout.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rerail.errors import UnreadableInput
from rerail.platform.deadline import Deadline, no_deadline

WHOLE_BYTES = 1 << 20
HEAD_BYTES = 64 << 10
TAIL_BYTES = 256 << 10
BLOCK_BYTES = 8 << 20
BEFORE_BYTES = 4 << 10  # kept before a hit: the frames that led to it
AFTER_BYTES = 12 << 10  # kept after a hit: the rest of its traceback
KEPT_BYTES = 8 << 20  # all stretches together
CHATTER = 20  # hits after which a word counts as chatter
MOST_HITS = 10_000  # of all words together: a log with more repeats the catalogue itself
COMPILED_AFTER = 8000  # hits of chatter that take as long as making the automaton without it
FULL_HITS = 3  # of a word; around the later ones less is kept
LATER_BYTES = 1 << 10
MOST_LINES = 40_000  # looked at in one file: short lines cost as much time as long ones
MOST_ZERO_BYTES = 1 << 30  # read at the beginning of a file; a hole is passed over unread
LONGEST_LINE_BYTES = 64 << 20  # a longer one is no log


@dataclass(frozen=True)
class Excerpt:
    """Numbered raw lines of one file; `is_whole` when nothing was left out."""

    lines: list[tuple[int, str]]
    size_bytes: int
    is_whole: bool


def read_excerpt(
    path: Path, words: Sequence[str], share: int = 1, deadline: Deadline | None = None
) -> Excerpt:
    """What is worth reading of a file; one of many gives only a part of what one alone would."""
    try:
        with path.open("rb") as file:
            return excerpt_of(file, str(path), words, share, deadline)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableInput(
            f"{path}: {reason}", "Name a log file, a run id, or `-` for standard input."
        ) from error


def excerpt_of(
    file: BinaryIO,
    name: str,
    words: Sequence[str],
    share: int = 1,
    deadline: Deadline | None = None,
) -> Excerpt:
    """What is worth reading of an open file, a pipe included."""
    whole_bytes = WHOLE_BYTES // share
    start = _start_after_zeros(file, whole_bytes + 1)
    refuse_unless_text(start, name)
    if len(start) <= whole_bytes and start.count(b"\n") <= MOST_LINES:
        return Excerpt(_numbered(start, 1), len(start), True)
    return _large(file, name, start, words, share, deadline or no_deadline())


def _start_after_zeros(file: BinaryIO, most_bytes: int) -> bytes:
    """Return the first bytes after the zeros that a log truncated by logrotate begins with."""
    start = file.read(most_bytes)
    if not start.startswith(b"\0"):
        return start
    read_bytes = len(start)
    while start and not (rest := start.lstrip(b"\0")):
        if read_bytes > MOST_ZERO_BYTES:
            return b""
        with contextlib.suppress(OSError, ValueError):  # a pipe, or a system without SEEK_DATA
            file.seek(file.tell(), getattr(os, "SEEK_DATA", os.SEEK_SET))
        start = file.read(most_bytes)
        read_bytes += len(start)
    return rest + file.read(most_bytes - len(rest)) if start else b""


def refuse_unless_text(start: bytes, name: str) -> None:
    """UnreadableInput if these first bytes are nothing, or are no text."""
    if not start.strip():
        raise UnreadableInput(
            f"{name} is empty: there is nothing to read in it.",
            "If the program printed nothing, run it under `rerail run -- CMD` instead.",
        )
    if _is_binary(start):
        raise UnreadableInput(
            f"{name} is not a text file.", "rerail explain reads logs and recorded runs."
        )


def _is_binary(start: bytes) -> bool:
    """NUL bytes all over, or mostly bytes that no encoding of a log uses."""
    sample = start[: 1 << 16]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    odd = len(sample) - len(sample.translate(None, _ODD_BYTES))
    return odd > max(8, len(sample) // 20)


_ODD_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\r\x0b\x0c\x08\x07\x1b")


def decode(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8", "replace")


def _numbered(raw: bytes, first: int) -> list[tuple[int, str]]:
    text = decode(raw)
    if text.endswith("\n"):
        text = text[:-1]
    return list(enumerate(text.split("\n"), first))


class _WordFinder:
    """Finds the next hit of any word; loses words that turn out to be chatter.

    Making the automaton anew takes as long as thousands of hits. A word that became chatter is
    therefore only passed over at first; the automaton is made without it when COMPILED_AFTER hits
    were passed over, which took as long. So a log with every word of the catalogue thousands of
    times takes at most twice the time of its hits, not an automaton for each word.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = {word.encode() for word in words}
        self._seen: Counter[bytes] = Counter()
        self._passed_over = 0
        self._left = MOST_HITS
        self._compile()

    def _compile(self) -> None:
        self._words = {word for word in self._words if self._seen[word] < CHATTER}
        self._pattern = _compiled(frozenset(self._words)) if self._words else None
        self._longer = _longer_words(frozenset(self._words))

    def hits(self, block: bytes) -> list[tuple[int, int, bool]]:
        """(start, end, whether it is one of the first of its word)."""
        found: list[tuple[int, int, bool]] = []
        at = 0
        while self._left and self._pattern and (match := self._pattern.search(block, at)):
            start, end = match.span()
            word = self._first_telling(block, start, _as_word(block[start:end]))
            if word is None:
                at = start + 1  # another word may begin inside it
                self._pass_over()
                continue
            at = end = start + len(word)
            self._seen[word] += 1
            self._left -= 1
            found.append((start, end, self._seen[word] <= FULL_HITS))
        return found

    def _first_telling(self, block: bytes, start: int, word: bytes) -> bytes | None:
        """The word that was found or, where it is chatter, a longer one at the same place."""
        if self._seen[word] < CHATTER:
            return word
        if longer := self._longer.get(word):
            there = _as_word(block[start : start + len(max(longer, key=len))])
            for other in longer:
                if self._seen[other] < CHATTER and there.startswith(other):
                    return other
        return None

    def _pass_over(self) -> None:
        self._passed_over += 1
        if self._passed_over >= COMPILED_AFTER:
            self._passed_over = 0
            self._compile()


def _as_word(found: bytes) -> bytes:
    """As it stands in the list of words: lower case, any white space a space."""
    return found.lower().translate(_SPACES)


_SPACES = bytes(32 if byte in b"\t\n\x0b\x0c\r" else byte for byte in range(256))


@functools.lru_cache(maxsize=4)
def _longer_words(words: frozenset[bytes]) -> dict[bytes, list[bytes]]:
    """By word, the others that begin with it, in the order in which the automaton tries them."""
    longer: dict[bytes, list[bytes]] = {}
    ordered = sorted(words)
    for at, word in enumerate(ordered):
        for other in itertools.islice(ordered, at + 1, None):
            if not other.startswith(word):
                break
            longer.setdefault(word, []).append(other)
    return longer


@functools.lru_cache(maxsize=4)  # every file of a job begins with the same words
def _compiled(words: frozenset[bytes]) -> Any:
    # A space of a word may be any white space in the log.
    alternatives = b"|".join(re.escape(word).replace(rb"\ ", rb"\s") for word in sorted(words))
    try:
        import re2
    except ImportError:  # slower, the same answer
        return re.compile(alternatives, re.IGNORECASE)
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 << 20
    return re2.compile(alternatives, options)


def _large(
    file: BinaryIO, name: str, start: bytes, words: Sequence[str], share: int, deadline: Deadline
) -> Excerpt:
    finder = _WordFinder(words)
    keeper = _Keeper(start[: HEAD_BYTES // share], TAIL_BYTES // share)
    offset = 0
    block = start
    carry = b""
    line_bytes = 0
    while block:
        whole = carry + block
        # When the time is over, lines are still counted: the end says most, and is read whole.
        is_late = deadline.skips(f"the middle of {Path(name).name}")
        keeper.add_block(whole, offset - len(carry), [] if is_late else finder.hits(whole))
        offset += len(block)
        # An overlap of a word's length, so that none is cut in two by the block's edge.
        carry = whole[-256:]
        keeper.remember_tail(block)
        line_bytes = 0 if b"\n" in block or b"\r" in block else line_bytes + len(block)
        if line_bytes > LONGEST_LINE_BYTES:
            raise UnreadableInput(
                f"{name} has a line of more than {LONGEST_LINE_BYTES >> 20} MiB: it is no log.",
                "rerail explain reads logs and recorded runs.",
            )
        block = file.read(BLOCK_BYTES)
    return Excerpt(keeper.lines(), offset, False)


class _Keeper:
    """Collects stretches of a file with the line number that each begins at."""

    def __init__(self, head: bytes, tail_bytes: int) -> None:
        self._tail_bytes = tail_bytes
        self._stretches: list[tuple[int, int, bytes]] = []  # offset, first line, bytes
        self._kept_bytes = 0
        self._head = head
        self._newlines_before = 0  # of the next block's own bytes
        self._seen_bytes = 0
        self._tail = b""
        self._pending_after = 0

    def add_block(self, whole: bytes, offset: int, hits: list[tuple[int, int, bool]]) -> None:
        carried = self._seen_bytes - offset
        line_at_start = self._newlines_before - whole.count(b"\n", 0, carried)
        at, line = 0, line_at_start
        for begin, end in _merged(hits, len(whole), carried, self._pending_after):
            if self._kept_bytes >= KEPT_BYTES:
                break
            line += whole.count(b"\n", at, begin)
            at = begin
            self._stretches.append((offset + begin, line + 1, whole[begin:end]))
            self._kept_bytes += end - begin
        self._pending_after = max(
            (AFTER_BYTES - (len(whole) - end) for _, end, is_early in hits[-1:] if is_early),
            default=0,
        )
        self._newlines_before += whole.count(b"\n", carried)
        self._seen_bytes = offset + len(whole)

    def remember_tail(self, block: bytes) -> None:
        so_far = self._tail if len(block) < self._tail_bytes else b""
        self._tail = (so_far + block)[-self._tail_bytes :]

    def lines(self) -> list[tuple[int, str]]:
        tail_first = self._newlines_before - self._tail.count(b"\n") + 1
        tail_offset = self._seen_bytes - len(self._tail)
        parts = [(0, 1, self._head), *self._stretches, (tail_offset, tail_first, self._tail)]
        lines: list[tuple[int, str]] = []
        for first, raw in _joined(parts):
            lines += _numbered(raw, first)
        if len(lines) > MOST_LINES:
            lines = lines[: MOST_LINES // 4] + lines[-3 * MOST_LINES // 4 :]
        return lines


def _joined(parts: list[tuple[int, int, bytes]]) -> list[tuple[int, bytes]]:
    """Stretches that overlap in the file become one; the order is that of the file."""
    joined: list[tuple[int, int, bytearray]] = []
    for offset, first, raw in sorted(parts, key=lambda part: part[0]):
        if joined and offset <= joined[-1][0] + len(joined[-1][2]):
            so_far = joined[-1][2]
            so_far += raw[joined[-1][0] + len(so_far) - offset :]
        else:
            joined.append((offset, first, bytearray(raw)))
    return [(first, bytes(raw)) for _, first, raw in joined]


def _merged(
    hits: list[tuple[int, int, bool]], length: int, carried: int, pending_after: int
) -> list[tuple[int, int]]:
    """Stretches around the hits, joined where they touch."""
    stretches: list[tuple[int, int]] = []
    if pending_after > 0:
        stretches.append((carried, min(length, carried + pending_after)))
    for start, end, is_early in hits:
        before, after = (BEFORE_BYTES, AFTER_BYTES) if is_early else (LATER_BYTES, LATER_BYTES)
        begin, finish = max(0, start - before), min(length, end + after)
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(finish, stretches[-1][1]))
        else:
            stretches.append((begin, finish))
    return stretches
