"""Numbers that are none, or that no timer takes, are refused by every option that takes one."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from rerail.cli._discovery import command_names, load_command
from rerail.cli._numbers import Duration

NONE = (
    "nan",
    "-nan",
    "inf",
    "-inf",
    "infinity",
    "1e999",
    "1e30",
    "9" * 400,
    "-1",
    "-0.5",
    "",
    "x",
    "1,5",
)


def options() -> Iterator[tuple[str, click.Option]]:
    def of(name: str, command: click.Command) -> Iterator[tuple[str, click.Option]]:
        if isinstance(command, click.Group):
            for word, inner in command.commands.items():
                yield from of(f"{name} {word}", inner)
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield name, parameter

    for name in command_names():
        yield from of(name, load_command(name))


def test_an_option_that_takes_a_number_of_any_size_takes_no_other() -> None:
    kinds = (click.types.FloatParamType, Duration)
    found = [(name, option) for name, option in options() if isinstance(option.type, kinds)]
    assert {f"{name} {option.opts[0]}" for name, option in found} >= {
        *("run --stall", "run --backoff", "check --seconds", "isolate --confidence"),
        *("isolate --budget", "isolate --stall", "verify --budget"),
    }
    for name, option in found:
        for text in NONE:
            with pytest.raises(click.BadParameter):
                taken = option.type.convert(text, option, None)
                pytest.fail(f"{name} {option.opts[0]} {text[:20]} is taken as {taken}")
    assert Duration().convert("1.5h", None, None) == 5400.0
