"""Matches the catalogue's text signatures on clean lines.

In: lines, and the tracebacks found in them. Out: `SignatureMatch`es. Only signatures one of whose
required words occurs are compiled and tried, and only around those words (`stretches`, which bounds
how often): the cost follows what the log says, not how much the catalogue knows. A space of a
pattern matches a line break, because messages arrive wrapped. Promises: time linear in the text,
whatever stands in it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rerail.catalogue import Catalogue, Signature, spaced
from rerail.evidence.text.lines import Line
from rerail.evidence.text.stretches import Places, Stretch, Text, find_places
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform.deadline import Deadline
from rerail.platform.patterns import LinearPattern, linear

MOST_MATCHES = 40  # of one signature in one log
TAIL_LINES = 60
SYMPTOM = "symptom:"  # before the id of a symptom, in the place of a cause's
_MOST_QUOTED = 4  # matches in one stretch; code that a traceback quotes is one line, or two
_AFTER_CHARS = 8192  # behind a match: where what speaks against it is looked for


@dataclass(frozen=True)
class SignatureMatch:
    cause: str
    signature: Signature
    line: int
    text: str
    stream: str = ""
    file: int = 0
    groups: dict[str, str] = field(default_factory=dict)
    traceback: TracebackText | None = None
    stamp: float | None = None


@functools.cache
def _compiled(pattern: str) -> LinearPattern:
    return linear(spaced(pattern), re.MULTILINE)


@functools.cache
def _compiled_for_tail(pattern: str) -> LinearPattern:
    return linear(pattern, re.MULTILINE | re.DOTALL)


def match_signatures(
    catalogue: Catalogue,
    lines: Sequence[Line],
    tracebacks: Sequence[TracebackText],
    deadline: Deadline,
) -> list[SignatureMatch]:
    if not lines:
        return []
    text = Text(lines)
    tail = Text(lines[-TAIL_LINES:])
    known = [(cause.id, one) for cause in catalogue for one in cause.signatures]
    known += [
        (f"{SYMPTOM}{each.id}", one) for each in catalogue.symptoms for one in each.signatures
    ]
    on_lines = [one for _, one in known if one.where == "line"]
    places = find_places(on_lines, text)
    raised_in = _raised_in(tracebacks)
    found: list[SignatureMatch] = []
    for cause_id, signature in known:
        if deadline.skips("some causes' words in the text"):
            break
        if signature.where == "line":
            found += _on_text(cause_id, signature, text, places.get(id(signature)), raised_in)
        elif signature.where == "tail":
            found += _on_tail(cause_id, signature, tail)
        else:
            found += _on_tracebacks(cause_id, signature, tracebacks)
    found.sort(key=lambda match: (match.file, match.line))
    return found


def _raised_in(tracebacks: Sequence[TracebackText]) -> dict[tuple[int, int], str]:
    """By file and line of an exception's own words: the frame in which it was raised."""
    frames: dict[tuple[int, int], str] = {}
    for traceback in tracebacks:
        if traceback.frames:
            innermost = _shown_frame(traceback.frames[-1])
            for line in traceback.message_lines:
                frames[traceback.file, line] = innermost
    return frames


def _on_text(
    cause: str,
    signature: Signature,
    text: Text,
    places: Places | None,
    raised_in: dict[tuple[int, int], str],
) -> Iterator[SignatureMatch]:
    seen: set[int] = set()
    for start, match in _spans(signature, text, places):
        if start in seen:
            continue
        seen.add(start)
        line = _line_of(text, start, match)
        if signature.unless_through:
            frame = raised_in.get((line.file, line.number), "")
            if _compiled(signature.unless_through).search(frame):
                continue
        yield _made(cause, signature, match, line)
        if len(seen) >= MOST_MATCHES:
            return


def _line_of(text: Text, start: int, match: re.Match[str]) -> Line:
    """The line of a match; its pattern may begin with the end of the line before."""
    return text.line_at(start + match.group().startswith("\n"))


def _spans(
    signature: Signature, text: Text, places: Places | None
) -> Iterator[tuple[int, re.Match[str]]]:
    """Where the pattern matches: the offset in the whole text, and the match."""
    if not signature.literals:
        yield from _allowed(signature, text, Stretch(0, len(text.text)))
    if places is None:
        return
    tried: dict[Stretch, list[tuple[int, re.Match[str]]]] = {}
    for places_of_word in places.by_word:
        seen_until = 0
        for at, stretch in places_of_word:
            if at < seen_until:
                continue
            if stretch not in tried:
                matches = _allowed(signature, text, stretch)
                tried[stretch] = list(matches if places.are_wrapped else _until_said(matches, text))
            if tried[stretch]:
                seen_until = stretch.end  # the stretch showed the next lines too
                yield from tried[stretch]


def _until_said(
    matches: Iterator[tuple[int, re.Match[str]]], text: Text
) -> Iterator[tuple[int, re.Match[str]]]:
    """The first match that is no code: `raise X("cannot …")` must not hide "X: cannot …" below."""
    for start, match in itertools.islice(matches, _MOST_QUOTED):
        yield start, match
        if not text.is_code_at(start):
            return


def _allowed(
    signature: Signature, text: Text, stretch: Stretch
) -> Iterator[tuple[int, re.Match[str]]]:
    """Without those whose line `unless` refuses: a refused one must not hide the next."""
    for start, match in _matches(signature, text.text[stretch.start : stretch.end], stretch.start):
        if signature.unless:
            line = _line_of(text, start, match)
            if _compiled(signature.unless).search(line.text):
                continue
        yield start, match


def _matches(signature: Signature, text: str, offset: int) -> Iterator[tuple[int, re.Match[str]]]:
    """The matches that the signature's own exceptions leave, with their offset in the whole."""
    for match in _compiled(signature.pattern).finditer(text):
        if _counts(signature, match, text):
            yield offset + match.start(), match


def _counts(signature: Signature, match: re.Match[str], text: str) -> bool:
    """Whether what `but_not`, `same` and `differ` demand holds of a match."""
    if signature.but_not:
        following = text[match.start() : match.end() + _AFTER_CHARS]
        if _compiled(signature.but_not).match(following):
            return False
    if signature.same and len({match.group(name) for name in signature.same}) > 1:
        return False
    return not (signature.differ and len({match.group(name) for name in signature.differ}) == 1)


def _on_tail(cause: str, signature: Signature, tail: Text) -> Iterator[SignatureMatch]:
    if signature.literals and not any(word in tail.lower for word in signature.literals):
        return
    for match in _compiled_for_tail(signature.pattern).finditer(tail.text):
        if not _counts(signature, match, tail.text):
            continue
        if not (signature.unless and _compiled_for_tail(signature.unless).search(tail.text)):
            yield _made(cause, signature, match, tail.line_at(max(match.start(), match.end() - 1)))
        return


def _made(cause: str, signature: Signature, match: re.Match[str], line: Line) -> SignatureMatch:
    groups = {name: value for name, value in match.groupdict().items() if value}
    return SignatureMatch(
        cause,
        signature,
        line.number,
        line.text.strip(),
        line.stream,
        line.file,
        groups,
        stamp=line.stamp,
    )


def _on_tracebacks(
    cause: str, signature: Signature, tracebacks: Sequence[TracebackText]
) -> Iterator[SignatureMatch]:
    for traceback in tracebacks[-MOST_MATCHES:]:
        if traceback.is_ignored:
            continue
        for subject, shown in _subjects(signature, traceback):
            match = _compiled(signature.pattern).search(subject)
            if not match or (signature.unless and _compiled(signature.unless).search(subject)):
                continue
            groups = {name: value for name, value in match.groupdict().items() if value}
            yield SignatureMatch(
                cause,
                signature,
                traceback.last_line,
                shown if traceback.frames else _line_around(subject, match) or shown,
                traceback.stream,
                traceback.file,
                groups,
                traceback,
                traceback.stamp,
            )
            break


def _line_around(subject: str, match: re.Match[str]) -> str:
    """Of several lines that native code said, the one that has the words."""
    begins = subject.rfind("\n", 0, match.end()) + 1 if match.end() else 0
    return subject[begins:].partition("\n")[0].strip()


def _subjects(signature: Signature, traceback: TracebackText) -> Iterator[tuple[str, str]]:
    """What the signature is matched on, and what is shown of it."""
    frames = _frames(traceback)
    if signature.where == "exception":
        if traceback.type:
            yield traceback.text, traceback.text.partition("\n")[0]
        return
    if signature.where == "last-frame":
        if traceback.is_cut and frames:
            yield frames[-1], f"the traceback ends in {frames[-1]}"
        return
    for frame in reversed(frames):
        yield frame, f"{traceback.type or 'traceback'} raised through {frame}"


def _frames(traceback: TracebackText) -> list[str]:
    return [_shown_frame(frame) for frame in traceback.frames]


def _shown_frame(frame: tuple[str, int, str]) -> str:
    file, _, function = frame
    return f"{file}:{function}".replace("\\", "/")
