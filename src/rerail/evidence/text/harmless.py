"""Which lines that sound like a failure are none?

In: the text of a line, or a match on it. Out: whether it only warns, says itself what was done
instead, or is code that a traceback quotes. What is raised is never harmless by its words alone.
The wordings are in catalogue/wordings/harmless.toml.
"""

from __future__ import annotations

from collections.abc import Container

from rerail.evidence.text.signatures import SignatureMatch
from rerail.platform.wordings import wordings

_WORDINGS = wordings("harmless")
_PYTHON_WARNING = _WORDINGS["python-warning"]
_IDLE_WARNING = _WORDINGS["idle-warning"]
_LOGGED_AS_WARNING = _WORDINGS["logged-as-warning"]
_WARNS = _WORDINGS["warns"]
_DEALT_WITH = _WORDINGS["dealt-with"]
_INFORMS = _WORDINGS["informs"]
_LOGGED_TO_INFORM = _WORDINGS["logged-to-inform"]
_AT_LEVEL_INFO = _WORDINGS["at-level-info"]
_LEVELS = ("INFO", "DEBUG", "TRACE", "info", "debug", "trace")
_INFORMS_OF_TROUBLE = _WORDINGS["informs-of-trouble"]
_LOGS_TROUBLE = _WORDINGS["logs-trouble"]
_OF_STEPS = _WORDINGS["steps-left-out"]
_OF_ALL = _WORDINGS["all-left-out"]
_IS_RAISED = _WORDINGS["is-raised"]


def is_python_warning(text: str) -> bool:
    return _PYTHON_WARNING.search(text) is not None


def is_logged_as_warning(text: str) -> bool:
    return _LOGGED_AS_WARNING.search(text) is not None


def is_context(text: str) -> bool:
    """Whether the line calls itself information: it never tells what ended a program."""
    if not (text.startswith(("I", "[I", "D", "[D")) or any(word in text for word in _LEVELS)):
        return False
    return _AT_LEVEL_INFO.search(text) is not None


def only_warns(match: SignatureMatch) -> bool:
    """What the first step after it proves survived."""
    return match.traceback is None and _WARNS.search(match.text) is not None


def is_dealt_with(match: SignatureMatch) -> bool:
    """The line itself says what was done instead, or only informs."""
    if match.traceback is None and (_only_informs(match.text) or _IDLE_WARNING.search(match.text)):
        return True
    return (
        match.traceback is None
        and _DEALT_WITH.search(match.text) is not None
        and not _OF_STEPS.search(match.text)
        and not _OF_ALL.search(match.text)
        and not _IS_RAISED.search(match.text)
    )


def _only_informs(text: str) -> bool:
    if _INFORMS.search(text):
        return not _INFORMS_OF_TROUBLE.search(text)
    return _LOGGED_TO_INFORM.search(text) is not None and not _LOGS_TROUBLE.search(text)


def is_quoted_code(match: SignatureMatch, quoted: Container[tuple[int, int]]) -> bool:
    """A word in code that a traceback quotes is not a message; in a `raise` it is one.

    `quoted`: file and number of the lines that tracebacks quote.
    """
    return (
        match.traceback is None
        and match.signature.where == "line"
        and (match.file, match.line) in quoted
        and not _IS_RAISED.search(match.text)
    )
