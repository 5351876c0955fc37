"""Which settings are in force, and where each comes from.

In: the variables RERAIL_*, pyproject.toml, the user's rerail.toml. Out: a table or one JSON
document; addresses of receivers are shown without their secrets. Ends with 1 if something in there
cannot be used. With --allow, what the project's file sets is allowed first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from rerail.cli._discovery import command_names, load_command
from rerail.cli._options import json_option
from rerail.cli._printing import console, print_json
from rerail.cli._project_trust import allow
from rerail.cli._settings import (
    EFFECT_OF,
    NAMES,
    Settings,
    settable,
    setting_name,
    user_file,
    variable_of,
)


@click.command(name="config", epilog="Example: rerail config --json | jq '.settings[].name'")
@click.option(
    "--allow",
    "allows",
    is_flag=True,
    help="First allow what the project's file sets now, also if it runs commands, writes files,"
    " moves the store, changes how CMD is started or sends work to other machines.",
)
@json_option
def command(allows: bool, as_json: bool) -> int:
    """Show which settings are in force here, and where each comes from.

    What is typed wins over the environment (RERAIL_STALL=300), that over [tool.rerail] of the
    nearest pyproject.toml, that over your own rerail.toml.
    """
    try:
        cwd: Path | None = Path.cwd()
    except OSError:
        cwd = None
    settings = Settings.read(os.environ, cwd)
    if allows:
        _allow(settings, is_silent=as_json)
        settings = Settings.read(os.environ, cwd)
    document = _document(settings)
    told = settings.refusal_for()
    if as_json:
        print_json({**document, "problems": [*document["problems"], *([told] if told else [])]})
    else:
        _show(document)
        if told:
            console().print(told, markup=False, soft_wrap=True)
    return 1 if document["problems"] or told else 0


def _allow(settings: Settings, *, is_silent: bool) -> None:
    """Allow what is held back, and say what that is."""
    held = settings.held_back
    if held and held[0].base is not None:
        allow(held[0].base, held, os.environ)
    lines = [f"allowed: {s.name} ({s.where}): can {EFFECT_OF[s.name]}" for s in held]
    for line in [] if is_silent else lines or ["There is nothing here that has to be allowed."]:
        console().print(line, markup=False, soft_wrap=True)


def _document(settings: Settings) -> dict[str, Any]:
    commands: dict[str, list[str]] = {name: [] for name in NAMES}
    values: dict[tuple[str, str | None], dict[str, Any]] = {}
    for name in command_names():
        for inner in _leaves(load_command(name)):
            for option in settable(inner):
                if name not in commands[setting_name(option)]:
                    commands[setting_name(option)].append(name)
            for option, setting, value in settings.in_force(name, inner):
                own = setting_name(option)
                values[own, setting.command] = {
                    "value": str(value) if isinstance(value, Path) else _shown(own, setting.value),
                    "source": setting.source,
                    "where": setting.where,
                }
    return {
        "schema": 1,
        "files": [{"source": source, "path": str(path)} for source, path in settings.files],
        "settings": [
            {"name": name, "command": of, **values[name, of]}
            for name, of in sorted(values, key=lambda key: (NAMES.index(key[0]), key[1] or ""))
        ],
        "known": [
            {"name": name, "variable": variable_of(name), "commands": commands[name]}
            for name in NAMES
        ],
        "problems": settings.problems,
    }


def _leaves(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _leaves(inner)
    else:
        yield command


def _shown(name: str, value: Any) -> Any:
    """Addresses hold tokens, commands may: neither is shown whole."""
    if name == "notify":
        from rerail.notify import notifier_of

        texts = (value,) if isinstance(value, str) else tuple(str(text) for text in value)
        notifier = notifier_of((), None, {"RERAIL_NOTIFY": "\n".join(texts)})
        return notifier.shown if notifier else []
    if isinstance(value, str):
        from rerail.privacy import Masker

        return Masker().mask_text(value)
    return value


def _show(document: dict[str, Any]) -> None:
    screen = console()
    rows = [
        (f"{s['command']}: {s['name']}" if s["command"] else s["name"], _written(s), s["where"])
        for s in document["settings"]
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for name, value, where in rows:
        line = f"{name:{widths[0]}}  {value:{widths[1]}}  {where}"
        screen.print(line, markup=False, soft_wrap=True)
    if not rows:
        own = user_file(os.environ)
        screen.print("Nothing is set. Settings are read from RERAIL_* variables,")
        files = "[tool.rerail] of the nearest pyproject.toml" + (", and" if own else ".")
        screen.print(files, markup=False)
        if own:
            screen.print(str(own), markup=False, soft_wrap=True)
        screen.print(f"There are: {', '.join(k['name'] for k in document['known'])}", markup=False)
    for problem in document["problems"]:
        screen.print(f"not used: {problem}", markup=False, soft_wrap=True)


def _written(setting: dict[str, Any]) -> str:
    value = setting["value"]
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
