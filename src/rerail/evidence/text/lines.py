"""Turns the raw text of a log into clean lines that still know where they came from.

Terminal colours, carriage returns, and the prefixes that launchers, schedulers, containers and
loggers put in front of a line are taken off; the rank or process that such a prefix names, and
its time stamp, are kept beside the text. The line number is that of the file, so that an answer
can say where to look. A progress bar and a message printed onto the same line become two lines
of one number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from rerail.platform.patterns import ShortPattern, linear, short
from rerail.platform.terminal_text import without_escapes
from rerail.platform.wordings import wordings

LONGEST_LINE = 20_000  # characters kept of one line: the head and the tail
_MOST_SEGMENTS = 64  # redraws of a progress bar kept of one line
_GUESSES = wordings("lines")["guesses"]


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: str
    stream: str = ""  # "rank 3", "pid 4711": who wrote it, where a prefix says so
    stamp_text: str = ""  # its time stamp as it stood there
    file: int = 0  # index of the file it came from

    @property
    def stamp(self) -> float | None:
        """Seconds since the epoch; read when asked for, since few lines are asked."""
        return parse_stamp(self.stamp_text) if self.stamp_text else None


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# A message that was printed right behind a progress bar: "... 25.43s/it]Traceback (most ...".
_BEHIND_BAR = linear(
    r"[\]s](\[rank\d+\]:|\[E |\[INFO\||Traceback \(most recent|[A-Z]\w+Error: |OMP: )"
    # tqdm's own words end with the bracket behind the rate.
    r"|(?:it/s|s/it)(?:, [^\]\n]{0,300})?\]\s?(\S)"
)

PREFIX_CHARS = 240  # a launcher's prefix is shorter
_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?"


def _prefix(pattern: str) -> ShortPattern:
    return short(pattern, PREFIX_CHARS)


_PREFIXES = [
    ("stamp", _prefix(rf"[\[(<]?(?P<stamp>{_DATE})[\])>]?(?:[:|,]|\s-)?\s*")),
    ("time", _prefix(r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s+")),
    ("rank", _prefix(r"\[(?:rank|Rank|RANK|local_rank)[ =:]?(?P<rank>\d{1,9})\]:?\s?")),
    ("rank", _prefix(r"\[(?P<rank>\d{1,9})\]:\s?")),
    ("rank", _prefix(r"\[(?:default|trainer)(?P<rank>\d{1,9})\]:\s?")),
    ("rank", _prefix(r"\[\d+,(?P<rank>\d{1,9})\]<std(?:err|out)>:?\s?")),
    ("rank", _prefix(r"(?:trainer|default)/?(?P<rank0>\d*)\s?\[(?P<rank>\d{1,9})\]:\s?")),
    ("rank", _prefix(r"(?P<rank>\d{1,4}): (?=Traceback|  File |\[|[A-Z]\w+(?:Error|Exception))")),
    ("pid", _prefix(r"\((?:[\w.() -]{1,80} )?pid=(?P<pid>\d+)(?:, ip=[\d.]+)?\)\s?")),
    ("pid", _prefix(r"\[\d+\]\s(?=\[rank\d)")),
    ("container", _prefix(r"std(?:err|out)(?: [FP]|:) ")),
    ("container", _prefix(r"[\w.-]+\s*\| (?=\S|\s{2})")),
    ("pytest", _prefix(r"E {3,}(?=\S)")),
    ("quote", _prefix(r"> (?=\S|\s+File )")),
]
_HOST = _prefix(
    r"[\w.-]{0,60}\d[\w.-]{0,60}: (?=Traceback \(most|  File \"|\w[\w.]*(?:Error|Exception)\b)"
)
_MAYBE_PREFIX = _prefix(r"[\[(<\d>E]|std|trainer|default|[\w.-]+\s*\||[\w.-]{0,60}\d[\w.-]{0,60}: ")
_IN_TEXT_RANK = _prefix(r"\[(?:PG[^\]]*)?Rank (?P<rank>\d{1,9})\]|\brank: (?P<rank1>\d{1,9})\]")
_FRACTION = linear(r"(.*\.)(\d+)(.*)")
_ZONE = linear(r"(.*[+-]\d\d)(\d\d)")


def clean(text: str) -> str:
    """One line without colours and control characters, of bounded length."""
    text = without_escapes(text)
    if len(text) > LONGEST_LINE:
        text = text[: LONGEST_LINE // 2] + " … " + text[-LONGEST_LINE // 2 :]
    return _CONTROL.sub("", text) if not text.isprintable() else text


def parse_stamp(text: str) -> float | None:
    """Seconds since the epoch of a time stamp; one without a zone is taken as UTC."""
    text = text.replace("/", "-").replace("_", "T", 1).replace(",", ".").replace(" ", "T", 1)
    text = text.replace("Z", "+00:00").replace(" ", "")
    if found := _FRACTION.fullmatch(text):
        text = found.group(1) + (found.group(2) + "000000")[:6] + found.group(3)
    if found := _ZONE.fullmatch(text):
        text = f"{found.group(1)}:{found.group(2)}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def split_prefix(text: str) -> tuple[str, str, str]:
    """(text without launchers' prefixes, who wrote it, its time stamp)."""
    stream = stamp = ""
    for _ in range(6):
        if not _MAYBE_PREFIX.match(text):
            break
        for kind, pattern in _PREFIXES:
            found = pattern.match(text)
            if not found or not found.end():
                continue
            if kind == "stamp" and not stamp:
                stamp = found.group("stamp")
            elif kind == "rank":
                stream = f"rank {int(found.group('rank'))}"
            elif kind == "pid" and not stream and "pid" in found.groupdict():
                stream = f"pid {found.group('pid')}"
            text = text[found.end() :]
            break
        else:
            if found := _HOST.match(text):
                stream = stream or text[: found.end() - 2]
                text = text[found.end() :]
            break
    if not stream and (found := _IN_TEXT_RANK.search(text)):
        stream = f"rank {int(found.group('rank') or found.group('rank1'))}"
    return text, stream, stamp


def to_lines(numbered: Iterable[tuple[int, str]], file: int = 0) -> Iterator[Line]:
    """Clean lines of (number, raw text without its newline)."""
    for number, raw in numbered:
        for segment in _segments(raw):
            text = clean(segment)
            text, stream, stamp = split_prefix(text)
            text = without_guesses(text)
            yield Line(number, text.rstrip(), stream, stamp, file)


def without_guesses(text: str) -> str:
    """What a program lists as possible causes, it has not seen: Ray always names the OOM killer."""
    if "causes" not in text and "scheduler events" not in text:
        return text
    found = _GUESSES.search(text)
    return text[: found.start()] if found else text


def _segments(raw: str) -> list[str]:
    raw = raw.rstrip("\r\n")
    segments = [raw]
    if "\r" in raw:
        segments = [part for part in raw.split("\r") if part.strip()]
        if len(segments) > _MOST_SEGMENTS:
            segments = segments[: _MOST_SEGMENTS // 2] + segments[-_MOST_SEGMENTS // 2 :]
    if "s]" in raw or "it]" in raw or "[?" in raw or "ETA" in raw or "%|" in raw:
        segments = [part for whole in segments for part in _cut_behind_bars(whole)]
    return segments or [""]


def _cut_behind_bars(text: str) -> list[str]:
    cuts = [
        0,
        *(found.start(found.lastindex or 0) for found in _BEHIND_BAR.finditer(text)),
        len(text),
    ]
    return [text[start:end] for start, end in itertools.pairwise(cuts)]
