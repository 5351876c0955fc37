"""What a line of a rank, a launcher, a scheduler or a kernel says about who failed.

In: one line of text. Out: `Said`s: what kind of statement it is, with its numbers. Lines that
differ in their digits only are of one shape and say the same kind of thing, so the patterns are
tried once for each shape; a thousand ranks that fail alike cost as much as one. The wordings are in
catalogue/wordings/rank_words.toml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rerail.evidence.text.lines import clean, split_prefix
from rerail.platform.patterns import linear
from rerail.platform.printed_progress import read_line
from rerail.platform.wordings import wordings

MOST_SHAPES = 20_000
MOST_CHARS = 1200  # of a line

_WORDINGS = wordings("rank_words")
# What is said, and how. The name before the dash is what the judge asks for.
_STATEMENTS = [(each.says, each.pattern) for each in _WORDINGS.of("statement")]
_STREAM = linear(r"^\[rank(?P<rank>\d{1,7})\]:")
# Somebody else is gone or did not come; its own failure, wherever it stands.
_ECHO = _WORDINGS["echo"]
_OWN = _WORDINGS["own"]
_FRAME = linear(r'^\s*File "(?P<file>[^"]{1,300})", line (?P<line>\d+),? in ')
_HEADER = "Traceback (most recent call last)"
_FINISHED = _WORDINGS["finished"]
_HARMLESS = _WORDINGS["harmless"]
# Horovod lists a rank and its tensors as srun labels a line with its task.
_TENSORS = _WORDINGS["horovod-tensors"]


@dataclass(frozen=True)
class Shape:
    """What every line of one shape is."""

    is_progress: bool = False
    is_echo: bool = False
    is_own: bool = False
    is_header: bool = False
    is_finish: bool = False
    is_frame: bool = False
    statements: tuple[int, ...] = ()

    @property
    def says_nothing(self) -> bool:
        return not (
            self.is_echo or self.is_own or self.is_header or self.is_finish or self.statements
        )


_SILENT = Shape()


class Shapes:
    """The shapes seen so far; a bounded number."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def of(self, raw: bytes) -> Shape:
        key = raw[:MOST_CHARS].translate(None, b"0123456789")
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            shape = self._known[key] = _shape(text_of(raw))
        return shape


def text_of(raw: bytes) -> str:
    text = clean(raw[:MOST_CHARS].decode("utf-8", "replace"))
    if b": [" in raw[:12] and _TENSORS.match(text):
        return text
    text, _, _ = split_prefix(text)
    return text


def _shape(text: str) -> Shape:
    if not text.strip():
        return _SILENT
    statements = tuple(at for at, (_, form) in enumerate(_STATEMENTS) if form.search(text))
    is_echo = _ECHO.search(text) is not None
    is_harmless = _HARMLESS.search(text) is not None
    is_frame = _FRAME.match(text) is not None
    is_own = not is_echo and not is_harmless and not is_frame and _OWN.search(text) is not None
    is_header = text.lstrip().startswith(_HEADER)
    is_progress = (
        not (is_echo or is_own or is_header or is_frame or statements)
        and (said := read_line(text)) is not None
        and said.step is not None
    )
    return Shape(
        is_progress=is_progress,
        is_echo=is_echo,
        is_own=is_own,
        is_header=is_header,
        is_finish=_FINISHED.search(text) is not None,
        is_frame=is_frame,
        statements=statements,
    )


def statements_of(shape: Shape, text: str) -> list[tuple[str, dict[str, str]]]:
    """(name, its numbers and names) of everything that a line states."""
    found = []
    for at in shape.statements:
        name, form = _STATEMENTS[at]
        if match := form.search(text):
            found.append((name, {k: v for k, v in match.groupdict().items() if v is not None}))
    return found


def stream_rank(raw: bytes) -> int | None:
    """Of `[rank3]: …`, as PyTorch writes it before what a rank says."""
    if b"[rank" not in raw[:40]:
        return None
    text = raw[:60].decode("utf-8", "replace")
    found = _STREAM.match(text[text.index("[rank") :])
    return int(found.group("rank")) if found else None


def ranks_in(text: str) -> list[int]:
    """ "3, 5, 9" as numbers; a bounded number of them."""
    return [int(part) for part in re.findall(r"\d{1,7}", text[:4000])][:64]
