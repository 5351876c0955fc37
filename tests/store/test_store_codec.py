"""Records survive JSON, and JSON that is no record is refused by name."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail import records
from rerail.bounded import Pid, Share
from rerail.store.codec import (
    DecodeError,
    checks_of,
    decode,
    dump_line,
    dumps,
    encode,
    loads,
    observed,
)

# A busy machine is no defect: no deadlines.
unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

RECORDS = [
    kind
    for kind in vars(records).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
]

finite = st.floats(-1e28, 1e28)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**95), 2**95) | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Anything that a field with this annotation may hold."""
    if hint is Any:
        return json_values
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return st.builds(
            hint, **{f.name: values_of(hints[f.name]) for f in dataclasses.fields(hint)}
        )
    plain = {
        int: st.integers(-(2**70), 2**70),
        float: finite | st.sampled_from([math.inf, -math.inf, math.nan]),
        str: st.text(st.characters()),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in plain:
        return plain[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        kind, bounds = arguments
        if kind is int:
            return st.integers(int(bounds.least), int(bounds.most))
        return st.floats(bounds.least, bounds.most)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=2)
    if origin is tuple:
        return st.tuples(*[values_of(argument) for argument in arguments])
    if origin is dict:
        return st.dictionaries(st.text(), values_of(arguments[1]), max_size=2)
    raise AssertionError(hint)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@unhurried
@given(data=st.data())
def test_every_record_survives_json(kind: type, data: st.DataObject) -> None:
    record = data.draw(values_of(kind))
    text = dumps(record)
    back = decode(kind, loads(text))
    assert type(back) is kind
    assert dumps(back) == text


def test_what_json_has_no_word_for_is_text_and_comes_back_as_number() -> None:
    point = records.StepPoint(3, math.inf, math.nan)
    text = dumps(point)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"not JSON: {word}"))
    back = decode(records.StepPoint, loads(text))
    assert back.t_seconds == math.inf
    assert back.loss is not None
    assert math.isnan(back.loss)


def test_a_file_name_that_is_not_unicode_survives() -> None:
    frame = records.PythonFrame("caf\udce9.py", 1, "f")
    assert decode(records.PythonFrame, loads(dumps(frame))) == frame


def test_unknown_fields_are_passed_over_and_defaults_filled_in() -> None:
    value = {"path": "/lib/x.so", "colour": "red"}
    assert decode(records.MappedLibrary, value) == records.MappedLibrary("/lib/x.so")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"line": 1, "function": "f"}, "PythonFrame.file is missing"),
        ({"file": "a", "line": "1", "function": "f"}, "PythonFrame.line should be a whole number"),
        ({"file": "a", "line": True, "function": "f"}, "PythonFrame.line"),
        ({"file": None, "line": 1, "function": "f"}, "PythonFrame.file should be a text"),
        ([], "PythonFrame should be an object"),
    ],
)
def test_a_misfit_is_named(value: Any, named: str) -> None:
    with pytest.raises(DecodeError, match=named):
        decode(records.PythonFrame, value)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"t_seconds": 1e12}, "PrintedPoint.t_seconds should be from -1e"),
        ({"t_seconds": "NaN"}, "PrintedPoint.t_seconds should be from"),
        ({"t_seconds": 1.0, "step": -1}, "PrintedPoint.step should be from 0 to"),
        ({"t_seconds": 1.0, "steps": True}, "PrintedPoint.steps should be a whole number"),
    ],
)
def test_a_value_out_of_its_bounds_is_named(value: Any, named: str) -> None:
    with pytest.raises(DecodeError, match=named):
        decode(records.PrintedPoint, value)


def test_a_field_of_another_kind_was_not_observed() -> None:
    checks = checks_of({"pid": Pid, "said": list[str], "share": Share})
    assert observed({"pid": 2**31, "said": ["a", 1], "share": 1.5, "newer": 3}, checks) == {
        "newer": 3
    }
    told = {"pid": 7, "said": None, "share": 0.5}
    assert observed(dict(told), checks) == told


@unhurried
@given(kind=st.sampled_from(RECORDS), value=json_values)
def test_any_json_gives_a_record_or_a_decode_error(kind: type, value: Any) -> None:
    try:
        decode(kind, value)
    except DecodeError:
        pass


@unhurried
@given(st.binary())
def test_any_bytes_parse_or_give_a_decode_error(data: bytes) -> None:
    try:
        loads(data)
    except DecodeError:
        pass


def test_deep_nesting_is_a_decode_error() -> None:
    with pytest.raises(DecodeError):
        loads("[" * 200_000)


@unhurried
@given(json_values | values_of(float) | st.binary() | st.sets(st.integers(0, 2**90)))
def test_a_line_is_one_line_of_strict_json(value: Any) -> None:
    line = dump_line({"value": value})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    json.loads(line, parse_constant=lambda word: pytest.fail(f"not JSON: {word}"))
    assert loads(line) == {"value": encode(value)}
