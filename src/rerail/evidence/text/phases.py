"""Where in the life of a job was it?

In: a traceback, or a line with those before it. Out: a phase of PHASES, or "" where nothing says.
From the frames (the files and functions of libraries, and the names that people give their own),
from what a line itself says, and from the last line before it that announces what begins. The
innermost telling frame decides, then the innermost telling code that is quoted; a general reader
such as `torch.load` or `json.load` only where nobody around it says what is being read. The
wordings are in catalogue/wordings/phases.toml.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.evidence.text.lines import Line
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform.wordings import wordings

PHASES = (
    *("import", "configuration", "launching", "rendezvous", "download", "data-opening"),
    *("sample-loading", "model-building", "checkpoint-loading", "forward", "backward", "optimizer"),
    *("collective", "evaluation", "checkpoint-saving", "export", "shutdown"),
)
MOST_LINES_BEFORE = 40
MOST_FRAMES = 60


_WORDINGS = wordings("phases")
# What a library's file and function, or a name of the user's own, says by itself.
_TELLING = _WORDINGS.of("frame")
# General readers: what they read is told by who calls them, and only else by what they are.
_GENERAL = _WORDINGS.of("general-frame")
_QUOTED = _WORDINGS.of("code")
_SAID = _WORDINGS.of("line")
_NO_CHECKPOINT = _WORDINGS["names-no-checkpoint"]
_TO_READ = _WORDINGS["address-to-read"]


def phase_of_traceback(traceback: TracebackText, quoted: Sequence[str] = ()) -> str:
    """The innermost telling frame; then the innermost telling code; then a general reader.

    `quoted`: the lines of code that the traceback quotes.
    """
    frames = [f"{file}:{function}".replace("\\", "/") for file, _, function in traceback.frames]
    inner_first = frames[::-1][:MOST_FRAMES]
    code = [_NO_CHECKPOINT.sub("", line[:400]) for line in quoted[::-1][:MOST_FRAMES]]
    for places, texts in ((_TELLING, inner_first), (_QUOTED, code), (_GENERAL, inner_first)):
        for text in texts:
            for place in places:
                if place.pattern.search(text):
                    return place.says
    return ""


def phase_of_line(lines: Sequence[Line], index: int) -> str:
    """Of a line without a traceback: its own words, then the last announcement before it."""
    for line in reversed(lines[max(0, index - MOST_LINES_BEFORE) : index + 1]):
        text = line.text[:400]
        text = _TO_READ.sub("", text) if "://" in text else text
        for place in _SAID:
            if place.pattern.search(text):
                return place.says
    return ""
