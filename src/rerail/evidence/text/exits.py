"""What shells, launchers, schedulers, debuggers and crash reporters say of how something ended.

In: clean lines. Out: `ExitLine`s in order. Only the fixed forms in which such programs speak are
read (catalogue/wordings/exits.toml), so that "Killed" in a sentence is not a death.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rerail.evidence.text.lines import Line
from rerail.evidence.text.signal_words import WORDS
from rerail.platform.patterns import LinearPattern, LinearSet, linear
from rerail.platform.signal_names import OF_LINUX as SIGNALS
from rerail.platform.wordings import Wording, wordings

_WORDINGS = wordings("exits")
_FORMS = _WORDINGS.of("")
_WINDOWS = {
    0xC0000005: "SIGSEGV",
    0xC0000374: "SIGABRT",
    0xC0000409: "SIGABRT",
    0xC00000FD: "SIGSEGV",
    0xC000001D: "SIGILL",
    0xC0000094: "SIGFPE",
    0xC000013A: "SIGINT",
}
# A minus sign does not survive where a status is kept in a byte: -9 becomes 247.
_NEGATIVE_AS_BYTE = (4, 6, 7, 8, 9, 11, 15)


@dataclass(frozen=True)
class ExitLine:
    line: Line
    by: str  # shell, launcher, scheduler, container, debugger, crash-report, faulthandler, …
    signal: str | None = None
    exit_code: int | None = None
    rank: int | None = None
    dumped_core: bool = False


def _anchored(form: Wording) -> LinearPattern:
    pattern = form.pattern
    return linear(f"^(?:{pattern.pattern})", pattern.flags) if form.at_start else pattern


_POSSIBLE = LinearSet([_anchored(form) for form in _FORMS])
_WORTH = (*sorted({word[:6] for word in WORDS if word.isascii()}), *_WORDINGS.words)
_RANK = _WORDINGS["rank"]
# torchrun's report: who failed first, and apart from it those that it then told to end.
_FOLLOWERS = "Failures:"
_OTHER_PART = _WORDINGS["followers-end"]


def find_exits(lines: Iterable[Line]) -> list[ExitLine]:
    found = []
    of_followers = False
    for line in lines:
        if len(line.text) > 3000:
            continue
        if of_followers and _OTHER_PART.search(line.text):
            of_followers = False
        elif line.text.rstrip().endswith(_FOLLOWERS):
            of_followers = True
        lowered = line.text.lower()
        may_tell = not lowered.isascii() or any(word in lowered for word in _WORTH)
        if not may_tell or not (one := read_exit(line)):
            continue
        if not (of_followers and one.signal == "SIGTERM"):
            found.append(one)
    return found


def read_exit(line: Line) -> ExitLine | None:
    """What the line says of an ending, or None."""
    if (read := read_form(line.text)) is None:
        return None
    form, groups = read
    signal, code = _meaning(groups)
    rank = _RANK.search(line.text) if "rank" in line.text.lower() else None
    number = int(rank.group(1)) if rank else _stream_rank(line.stream)
    return ExitLine(line, form.says, signal, code, number, bool(groups.get("core")))


def read_form(text: str) -> tuple[Wording, dict[str, str | None]] | None:
    """The first form that tells a signal or a code, with its groups."""
    for at in _POSSIBLE.possible(text):
        form = _FORMS[at]
        found = form.pattern.match(text) if form.at_start else form.pattern.search(text)
        if found and _meaning(groups := found.groupdict()) != (None, None):
            return form, groups
    return None


def _stream_rank(stream: str) -> int | None:
    return int(stream[5:]) if stream.startswith("rank ") else None


def _meaning(groups: dict[str, str | None]) -> tuple[str | None, int | None]:
    if groups.get("word"):
        return WORDS[str(groups["word"]).lower()], None
    if groups.get("sig"):
        name = str(groups["sig"]).upper()
        return (name, None) if name in SIGNALS.values() else (None, None)
    if groups.get("num"):
        return SIGNALS.get(int(str(groups["num"]))), None
    if groups.get("access"):
        return "SIGSEGV", None
    if groups.get("code"):
        return from_code(int(str(groups["code"])))
    return None, None


def from_code(code: int) -> tuple[str | None, int | None]:
    """(signal, exit code) of a status as launchers print it: -9, 137, 247, 3221225477, 1."""
    if windows := _WINDOWS.get(code & 0xFFFFFFFF):
        return windows, code
    if -64 < code < 0:
        return SIGNALS.get(-code), None
    if 128 < code < 160 and code - 128 in SIGNALS:
        return SIGNALS[code - 128], code
    if 256 - code in _NEGATIVE_AS_BYTE:
        return SIGNALS[256 - code], code
    return None, code
