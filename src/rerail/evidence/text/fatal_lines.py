"""What does native code say before it ends itself?

In: the text of a line. Out: the message of a fatal line as C++, Rust, Lua and Julia programs and
their logging libraries print one (catalogue/wordings/fatal_lines.toml), or None. It is to them what
an exception's line is to Python.
"""

from __future__ import annotations

from rerail.platform.wordings import wordings

TYPE = "Fatal"  # what such a line has in the place of an exception's type

_WORDINGS = wordings("fatal_lines")
# One of these is in every such line; the first letter of a fatal line of glog is an F.
WORDS = _WORDINGS.words
_FATAL = _WORDINGS["fatal"]
_GOES_ON = _WORDINGS["goes-on-below"]


def goes_on(message: str) -> bool:
    """Whether the next lines belong to what a fatal line says."""
    return _GOES_ON.search(message) is not None


def fatal_message(text: str) -> str | None:
    """The words of a fatal line; None of any other."""
    if not text.startswith("F") and not any(word in text for word in WORDS):
        return None
    found = _FATAL.search(text)
    if found is None:
        return None
    return next(words for words in found.groups() if words is not None).strip()
