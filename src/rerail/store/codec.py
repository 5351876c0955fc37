"""The one place where records become JSON and JSON becomes records.

In: the dataclasses of `rerail.records`, or what `json` parsed. Out: plain JSON values, or the
dataclass. Strict about types (a text where a number belongs is refused, naming the field) and open
to growth: a field that this version does not know is passed over, a field with a default may be
absent. A field whose JSON name is a keyword of Python ends with an underscore (`for_`). Numbers
that JSON has no word for (NaN and the infinities; a loss is often one) travel as the texts "NaN",
"Infinity" and "-Infinity", so that every other JSON reader can read the files. What is parsed is
tame whatever the text was: no deeper than LEVELS, so that code that follows it down may call
itself, and every number finite and of a size that a machine could have measured; another number is
read as null, which everywhere means that nothing was observed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rerail.bounded import Rule

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]

LEVELS = 64  # of lists and objects in each other
MOST_RECORDS = 20_000  # in one list; a process has fewer threads and maps fewer libraries
MOST = 1 << 96  # the square of this is still a float
# Digits, exponents and signs to one byte each: a number that is out of all bounds, and little
# else, shows as one of two words. Three times as quick as any pattern, and it is on every line.
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LONG, _POWER = b"0" * 20, b"e000"

_NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class DecodeError(ValueError):
    """The JSON is not this record; the message says which field and why."""


def encode(value: Any) -> Any:
    """Plain JSON values for a record, or for anything that holds records."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)  # also an IntEnum such as signal.Signals
    if isinstance(value, float):
        return value if math.isfinite(value) else _nonfinite_name(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {key: encode(getattr(value, name)) for name, key in _keys(type(value))}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): encode(v) for key, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "surrogateescape")
    return str(value)  # a Path, a numpy number, …: readable, and never a failure on the way out


@functools.cache
def _keys(kind: type) -> list[tuple[str, str]]:
    """Return the fields of a record with their JSON names, once per type."""
    return [(f.name, f.name.rstrip("_")) for f in dataclasses.fields(kind)]


def _nonfinite_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def dumps(value: Any, indent: int | None = None) -> str:
    """Strict JSON text, ASCII only: lone surrogates of a file name survive as escapes."""
    separators = (",", ":") if indent is None else None
    return json.dumps(encode(value), indent=indent, separators=separators, allow_nan=False)


# Made once: json.dumps with these arguments would make one for every line.
_encode_line = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dump_line(value: dict[str, Any]) -> bytes:
    """One line of a .jsonl file. Plain finite values, nearly all lines, take the short way."""
    try:
        return _encode_line(value).encode("ascii") + b"\n"
    except (TypeError, ValueError):
        return dumps(value).encode("ascii") + b"\n"


def loads(text: bytes | str) -> Any:
    """Parsed JSON, or DecodeError whatever was wrong with it."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    shape = raw.translate(_SHAPE, b"+")
    is_tame = _LONG not in shape and _POWER not in shape
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        value = (_QUICK if is_tame else _CAREFUL).decode(text)
    except RecursionError:
        raise DecodeError("it is nested too deeply") from None
    except ValueError as error:  # JSON and Unicode errors alike
        raise DecodeError(str(error) or type(error).__name__) from None
    if raw.count(b"[") + raw.count(b"{") > LEVELS and _is_too_deep(value):
        raise DecodeError("it is nested too deeply")
    return value


def _sane_int(digits: str) -> int | None:
    value = int(digits) if len(digits) < 40 else MOST
    return value if -MOST < value < MOST else None


def _sane_float(digits: str) -> float | None:
    value = float(digits)
    return value if -MOST < value < MOST else None


_QUICK = json.JSONDecoder(parse_constant=lambda _: None)
_CAREFUL = json.JSONDecoder(
    parse_int=_sane_int, parse_float=_sane_float, parse_constant=lambda _: None
)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def decode(kind: type[T], value: Any, where: str = "") -> T:
    """The record of this kind, or DecodeError naming the field that does not fit."""
    try:
        return typing.cast(T, decoder_of(typing.cast(Any, kind))(value, where or _name_of(kind)))
    except RecursionError:
        raise DecodeError(f"{where or _name_of(kind)} is nested too deeply") from None


def checks_of(kinds: Mapping[str, Any]) -> Mapping[str, Decoder]:
    """Return what `observed` asks of fields, by their names."""
    return {name: decoder_of(kind) for name, kind in kinds.items()}


def observed(fields: dict[str, Any], checks: Mapping[str, Decoder]) -> dict[str, Any]:
    """Take out the fields that are not of their kind: they were not observed, nor is null.

    Names without a kind belong to somebody else, a newer rerail perhaps, and stay.
    """
    for name in [name for name in fields if name in checks]:
        if fields[name] is not None and not fits(checks[name], fields[name]):
            del fields[name]
    return fields


def fits(check: Decoder, value: Any) -> bool:
    try:
        check(value, "")
    except DecodeError:
        return False
    return True


@functools.cache
def decoder_of(kind: Any) -> Decoder:
    """How to read one annotated type. Built once per type: vitals are read by the ten thousand."""
    if kind is Any:
        return lambda value, where: value
    if dataclasses.is_dataclass(kind):
        return _record_decoder(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _bounded_decoder(decoder_of(arguments[0]), arguments[1])
    if origin is typing.Literal:
        return _literal_decoder(arguments)
    if origin in (typing.Union, types.UnionType):
        return _optional_decoder(arguments)
    if origin is list:
        most = MOST_RECORDS if dataclasses.is_dataclass(arguments[0]) else None
        return _list_decoder(decoder_of(arguments[0]), most)
    if origin is tuple and arguments[1:] == (...,):
        items = decoder_of(list[arguments[0]])  # type: ignore[valid-type]
        return lambda value, where: tuple(items(value, where))
    if origin is tuple:
        return _tuple_decoder([decoder_of(argument) for argument in arguments])
    if origin is dict:
        return _dict_decoder(decoder_of(arguments[1]))
    raise TypeError(f"records hold no {kind!r}: teach store/codec.py to read it")


def _record_decoder(kind: Any) -> Decoder:
    hints = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]), include_extras=True)
    fields = [
        (
            f.name,
            f.name.rstrip("_"),
            decoder_of(hints[f.name]),
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
        )
        for f in dataclasses.fields(kind)
        if f.init
    ]

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _misfit(where, "an object", value)
        found = {}
        for name, key, reader, is_required in fields:
            if key in value:
                found[name] = reader(value[key], f"{where}.{key}")
            elif is_required:
                raise DecodeError(f"{where}.{key} is missing")
        return kind(**found)

    return read


def _read_int(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _misfit(where, "a whole number", value)
    return value


def _read_float(value: Any, where: str) -> float:
    if isinstance(value, str) and value in _NONFINITE:
        return _NONFINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _misfit(where, "a number", value)
    try:
        return float(value)
    except OverflowError:
        raise _misfit(where, "a number of sensible size", value) from None


def _read_str(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _misfit(where, "a text", value)
    return value


def _read_bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _misfit(where, "true or false", value)
    return value


def _read_none(value: Any, where: str) -> None:
    if value is not None:
        raise _misfit(where, "null", value)


_PLAIN: dict[Any, Decoder] = {
    int: _read_int,
    float: _read_float,
    str: _read_str,
    bool: _read_bool,
    type(None): _read_none,
}


def _bounded_decoder(inner: Decoder, rule: Rule) -> Decoder:
    def read(value: Any, where: str) -> Any:
        found = inner(value, where)
        if not rule.holds(found):
            raise _misfit(where, rule.words, value)
        return found

    return read


def _literal_decoder(allowed: tuple[Any, ...]) -> Decoder:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise _misfit(where, "one of " + ", ".join(map(str, allowed)), value)
        return value

    return read


def _optional_decoder(arguments: tuple[Any, ...]) -> Decoder:
    readers = [decoder_of(argument) for argument in arguments if argument is not type(None)]
    may_be_none = len(readers) < len(arguments)

    def read(value: Any, where: str) -> Any:
        if value is None and may_be_none:
            return None
        for reader in readers[:-1]:
            try:
                return reader(value, where)
            except DecodeError:
                continue
        return readers[-1](value, where)

    return read


def _list_decoder(item: Decoder, most: int | None) -> Decoder:
    def read(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit(where, "a list", value)
        if most is not None and len(value) > most:
            raise DecodeError(f"{where} holds {len(value)} records, more than {most}")
        return [item(element, f"{where}[{i}]") for i, element in enumerate(value)]

    return read


def _tuple_decoder(items: list[Decoder]) -> Decoder:
    def read(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(items):
            raise _misfit(where, f"a list of {len(items)}", value)
        return tuple(
            item(element, f"{where}[{i}]")
            for i, (item, element) in enumerate(zip(items, value, strict=True))
        )

    return read


def _dict_decoder(item: Decoder) -> Decoder:
    def read(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit(where, "an object", value)
        return {key: item(element, f"{where}.{key}") for key, element in value.items()}

    return read


def _name_of(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _misfit(where: str, wanted: str, value: Any) -> DecodeError:
    shown = repr(value)
    if len(shown) > 40:
        shown = shown[:37] + "..."
    return DecodeError(f"{where} should be {wanted}, not {shown}")
