r"""Texts of the operating system, made fit to be shown: the one way out for all of them.

In: texts that may hold anything: a command, a variable or a path with bytes that are not UTF-8 (in
Python lone surrogates), control characters of a log. Out: texts that every file, page and terminal
takes: a byte is shown as `\xff`, a control character as `\x9b`, a change of
the writing direction as `\u202e`; line ends and tabs stay.
"""

from __future__ import annotations

import codecs
import re
import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

# For `str.encode` and for standard output: never an error, and the same signs as `shown` gives.
ERRORS = "rerail-shown"

_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_NOT_UTF8 = re.compile("[\ud800-\udfff]")


def shown(text: str) -> str:
    return _UNSHOWABLE.sub(lambda match: _sign(match[0]), text)


def printable(text: str) -> str:
    """Return one line of the same length: a blank for each kind of space, "?" for what is unseen.

    `shown` keeps the lines of a text; this is for text in tables, status lines and messages.
    """
    if text.isprintable():  # most text is, and a screen asks for hundreds of lines again and again
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def printable_line(text: str) -> str:
    """Return `printable` text with one blank between words."""
    return printable(" ".join(text.split()))


def is_printable(text: str) -> bool:
    return text.isprintable()


def shown_value(value: T) -> T:
    """The same record, list, dictionary or text, with every text in it fit to be shown."""
    return _walk(value)  # type: ignore[no-any-return]


def to_bytes(text: str) -> bytes:
    """UTF-8 whatever the text holds; control characters are the writer's business."""
    return text.encode("utf-8", ERRORS)


def let_output_take_anything() -> None:
    """Standard output and error show what they cannot encode instead of failing on it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=ERRORS)


def _walk(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {_walk(key): _walk(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_walk(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _walk(getattr(value, f.name)) for f in fields(value)})
    return value


def _sign(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        number -= 0xDC00  # a byte that was not UTF-8
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _replace_errors(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = "".join(map(_signs_in_ascii, error.object[error.start : error.end]))
    return signs, error.end


def _signs_in_ascii(character: str) -> str:
    if _NOT_UTF8.match(character) or ord(character) < 0x100:
        return _sign(character)
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


codecs.register_error(ERRORS, _replace_errors)
