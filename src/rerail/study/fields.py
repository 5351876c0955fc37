"""Taking typed values out of a study file, with complaints that name the line.

In: the parsed tables and where their keys stand. Out: values of the type asked for, or
`WrongStudyFile` saying file, line, key, what was expected and what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rerail.errors import RerailError, UsageError
from rerail.platform.typed_quantities import parse_duration, parse_size
from rerail.study.lines import KeyLines
from rerail.study.model import Scalar, Value

_KINDS = {
    dict: "a table",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


class WrongStudyFile(RerailError):
    """The study file cannot be read as a study."""


class Table:
    """One table of the file, its path, and where its keys stand."""

    def __init__(
        self, file: Path, lines: KeyLines, values: Mapping[str, Any], path: tuple[str | int, ...]
    ) -> None:
        self.file = file
        self.lines = lines
        self.values = values
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def refuse(self, key: str | None, problem: str, help_text: str = "") -> WrongStudyFile:
        path = (*self.path, key) if key is not None else self.path
        name = ".".join(str(part) for part in path if not isinstance(part, int))
        where = f"{self.file}:{self.lines.line_of(path)}"
        return WrongStudyFile(f"{where}: {name + ': ' if name else ''}{problem}", help_text)

    def line(self, key: str | None = None) -> int:
        return self.lines.line_of((*self.path, key) if key is not None else self.path)

    def only(self, known: Collection[str]) -> None:
        """Refuse a key that means nothing here: a misspelt limit would silently not hold."""
        for key in self.values:
            if key in known:
                continue
            import difflib

            close = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(sorted(known))}."
            raise self.refuse(key, "there is no such setting", hint)

    def table(self, key: str) -> Table:
        value = self._typed(key, dict, {})
        return Table(self.file, self.lines, value, (*self.path, key))

    def tables(self, key: str) -> list[Table]:
        value = self._typed(key, list, [])
        found = []
        for at, each in enumerate(value):
            if not isinstance(each, dict):
                raise self.refuse(key, f"expected [[{key}]] tables, found {in_words(each)}")
            found.append(Table(self.file, self.lines, each, (*self.path, key, at)))
        return found

    def text(self, key: str, default: str = "") -> str:
        value: str = self._typed(key, str, default)
        if key in self.values and not value.strip():
            raise self.refuse(key, "expected text, found an empty one")
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        value = self.text(key, default)
        if value not in choices:
            raise self.refuse(key, f"expected one of {', '.join(choices)}, found {value!r}")
        return value

    def count(self, key: str, default: int | None = None, least: int = 1) -> int | None:
        value = self._typed(key, int, default)
        if value is not None and value < least:
            raise self.refuse(key, f"expected at least {least}, found {value}")
        return value if value is None else int(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one text alone will do."""
        value = self.values.get(key, [])
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise self.refuse(key, f"expected a list of texts, found {in_words(value)}")
        return tuple(value)

    def seconds(self, key: str) -> float | None:
        return self._measure(key, parse_duration, "a time such as 90, '30m' or '2h'")

    def size_bytes(self, key: str) -> int | None:
        found = self._measure(key, parse_size, "a size such as '2GiB' or '700MiB'")
        return None if found is None else int(found)

    def parameter(self, key: str, value: Any) -> Value:
        """The value of an axis: a number, a text, true or false, or a list of those."""
        if isinstance(value, list) and value:
            return tuple(self._scalar(key, each) for each in value)
        return self._scalar(key, value)

    def _scalar(self, key: str, value: Any) -> Scalar:
        if isinstance(value, (str, int, float)):
            return value
        raise self.refuse(
            key, f"expected a number, a text, or true or false, found {in_words(value)}"
        )

    def _typed(self, key: str, kind: type, default: Any) -> Any:
        value = self.values.get(key, default)
        if value is default:
            return value
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.refuse(key, f"expected {_KINDS[kind]}, found {in_words(value)}")
        return value

    def _measure(self, key: str, parse: Callable[[str], float], expected: str) -> float | None:
        if key not in self.values:
            return None
        value = self.values[key]
        try:
            # A list, a table or true is no measure, whatever its text looks like.
            found = parse(str(value)) if type(value) in (int, float, str) else 0.0
        except UsageError:
            found = 0.0
        if found <= 0.0:
            raise self.refuse(key, f"expected {expected}, found {in_words(value)}")
        return found


def in_words(value: Any) -> str:
    """What a value is, with the value itself where it is short."""
    if isinstance(value, (dict, list)):
        return _KINDS[type(value)] if value else f"an empty {_KINDS[type(value)][2:]}"
    shown = repr(value) if isinstance(value, str) else str(value).lower()
    return f"{_KINDS.get(type(value), 'something else')} ({shown[:40]})"
