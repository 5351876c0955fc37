"""The options that people set always: in a project, for themselves, in the environment.

In: the variables RERAIL_*, `[tool.rerail]` of the nearest pyproject.toml that has one, the user's
rerail.toml. Out: defaults for one command, each with where it comes from, and sentences about what
cannot be used. What is typed wins over the environment, that over the project, that over the user.
Promises: nothing in a file or a variable makes a command fail: what is wrong is left out and said.
A file is only parsed if the word rerail is in it; a file of somebody else is not used, since a
setting can name a command. What a project's file sets that reaches outside of the project's own
store is used only after `rerail config --allow` (see `_project_trust`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from rerail.cli._project_trust import MOVES, RUNS, SENDS, STARTS, WRITES, is_allowed, refusal
from rerail.errors import UsageError
from rerail.store import read_regular

# The settings; each is the long option of that name, wherever a command has it. The value says what
# a project's file could do with it, for which the user has to allow it first; None: nothing outside
# of the project's own store, so a project's file may always set it.
EFFECT_OF: dict[str, str | None] = {
    "home": MOVES,
    "notify": RUNS,
    "notify-on": None,
    "metrics-file": WRITES,
    "stall": None,
    "on-stall": RUNS,
    "restarts": STARTS,
    "checkpoint": STARTS,
    # resume-args can set a variable of the command, such as LD_PRELOAD.
    "resume-args": STARTS,
    "allow": STARTS,
    "backoff": None,
    "quiet": None,
    "no-explain": None,
    "no-agent": None,
    "no-census": None,
    "no-trackers": None,
    "preload": None,
    "jobs": None,
    "scheduler": SENDS,
    "confidence": None,
    "budget": None,
    "keep": None,
    "port": None,
}
NAMES = tuple(EFFECT_OF)
# These two read their variable themselves, for callers from Python too.
READ_ELSEWHERE = ("home", "notify")
# Variables that are no settings: of the agent, trials, jobs, notifications, --ask, tests.
OTHER_VARIABLES = {
    f"RERAIL_{name}"
    for name in (
        *("AGENT", "T0", "CENSUS", "CHANGES", "REHEARSAL", "STUDY", "SEED", "CELL"),
        *("RUN", "ROOT_PID", "RUN_ID", "EVENT", "HEADLINE", "NEXT", "STEP", "HOST", "LABEL"),
        *("JOB", "JOB_DIR", "JOB_BEAT", "NODE", "PLATFORM", "WHEEL_PLATFORM"),
        *("CAUSE", "ASK", "ASK_KEY", "ASK_MODEL", "STORE_LIMIT", "DEBUG", "CONFIG", "COMPLETE"),
    )
}
PREFIX = "RERAIL_"
# Names the one file to read; empty: none at all.
INSTEAD = "RERAIL_CONFIG"
MOST_BYTES = 1 << 20
_MOST_PARTS = 16  # of a dotted key: the parser takes the square of that many steps
_MOST_PROBLEMS = 10
_LONGEST_PROBLEM = 300
_LARGEST_WITH_LINES = 1 << 16  # a key's line is looked for in files of people, not of generators
ENVIRONMENT, NAMED, PROJECT, USER = "environment", "named", "project", "user"
_STRENGTH = {ENVIRONMENT: 0, NAMED: 1, PROJECT: 1, USER: 2}


class Setting:
    """One value as it was written, and where. A plain class, since every start makes it."""

    __slots__ = ("base", "command", "name", "source", "value", "where")

    def __init__(
        self,
        name: str,
        value: Any,
        source: str,
        where: str,
        command: str | None = None,
        base: Path | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.where = where
        self.command = command  # of [tool.rerail.COMMAND]; None: for all that have the option
        self.base = base  # what a path in it is relative to


class Settings:
    """All that is written, strongest first, and what could not be used of it."""

    def __init__(self) -> None:
        self.written: list[Setting] = []
        self.files: list[tuple[str, Path]] = []
        self.problems: list[str] = []
        self.held_back: list[Setting] = []  # of the project's file, until the user allows them
        self.is_used = False

    @classmethod
    def read(cls, environ: Mapping[str, str], cwd: Path | None) -> Settings:
        settings = cls()
        settings._read_variables(environ)
        instead = environ.get(INSTEAD)
        if instead is None:
            for folder in (cwd, *cwd.parents) if cwd is not None else ():
                if settings._read_file(PROJECT, folder / "pyproject.toml"):
                    settings._hold_back(folder, environ)
                    break
            if (path := user_file(environ)) is not None:
                settings._read_file(USER, path)
        elif instead:
            settings._read_file(NAMED, Path(instead).expanduser().absolute())
        return settings

    def defaults_of(self, name: str, command: click.Command) -> dict[str, Any]:
        """As click wants them: by parameter, and by subcommand for a group. Fills `problems`."""
        if isinstance(command, click.Group):
            nested = command.commands.items()
            return {word: self.defaults_of(name, inner) for word, inner in nested}
        found = {
            str(option.name): value
            for option, _, value in self.in_force(name, command)
            if value is not None
        }
        self.is_used = self.is_used or bool(found)
        return found

    def forget(self, because: str) -> None:
        """Go on without any of them."""
        self.written.clear()
        self.held_back.clear()
        self.is_used = False
        self.problems = [f"the settings, in this run: {because}; see `rerail config`"]

    def refusal_for(self, command: click.Command | None = None) -> str | None:
        """Return the line about what is held back, for one command or for all."""
        names = None if command is None else {setting_name(o) for o in _all_settable(command)}
        held = [s for s in self.held_back if names is None or s.name in names]
        if not held or held[0].base is None:
            return None
        folder = held[0].base
        effects = {setting.name: EFFECT_OF[setting.name] or "" for setting in held}
        return refusal(folder, _short(folder / "pyproject.toml"), effects)

    def in_force(
        self, name: str, command: click.Command
    ) -> Iterator[tuple[click.Option, Setting, Any]]:
        """What this command takes from here; the value is None where the room itself reads it."""
        for option in settable(command):
            own = setting_name(option)
            found = [s for s in self.written if s.name == own and s.command in (None, name)]
            # Within one file, the table of the command is nearer than the general one.
            found.sort(key=lambda s: (_STRENGTH[s.source], s.command is None))
            for setting in found:
                if setting.source == ENVIRONMENT and own in READ_ELSEWHERE:
                    yield option, setting, None
                    break
                try:
                    yield option, setting, _converted(option, setting)
                    break
                except ValueError as error:
                    shown = "" if own in READ_ELSEWHERE else f" = {repr(setting.value)[:60]}"
                    self._leave_out(f"{setting.where}: {own}{shown}: {error}")

    def _hold_back(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Leave out what a project's file may not set before the user has allowed it."""
        reaching = [s for s in self.written if s.source == PROJECT and EFFECT_OF[s.name]]
        if reaching and not is_allowed(folder, reaching, environ):
            self.held_back = reaching
            self.written = [setting for setting in self.written if setting not in reaching]

    def _read_variables(self, environ: Mapping[str, str]) -> None:
        known = {variable_of(name): name for name in NAMES}
        for variable in environ:
            if not variable.startswith(PREFIX) or not environ[variable]:
                continue
            if variable in known:
                name = known[variable]
                self.written.append(Setting(name, environ[variable], ENVIRONMENT, variable))
            elif variable in OTHER_VARIABLES or self._is_full:
                continue
            elif near := nearest(variable, list(known)):
                self._leave_out(f"there is no variable {variable}; did you mean {near}?")

    def _read_file(self, source: str, path: Path) -> bool:
        """Whether it speaks of rerail, be it wrongly."""
        try:
            text = read_regular(path, MOST_BYTES, follows_links=True).decode("utf-8", "replace")
            if source == PROJECT and "rerail" not in text:
                return False
            tables: Any = _parsed(text)
            if path.name == "pyproject.toml":
                tools = tables.get("tool")
                tables = tools.get("rerail") if isinstance(tools, dict) else None
                if tables is None:
                    return False
            _refuse_strangers(path)
        except FileNotFoundError:
            if source == NAMED:
                self._leave_out(f"there is no file {_short(path)}, which {INSTEAD} names")
            return False
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._leave_out(f"{_short(path)} is not used: {reason}")
            return True
        self.files.append((source, path))
        if isinstance(tables, dict):
            self._take(tables, source, path, text, None)
        else:
            self._leave_out(f"{_short(path)}: tool.rerail is not a table")
        return True

    def _take(
        self, table: dict[str, Any], source: str, path: Path, text: str, command: str | None
    ) -> None:
        from rerail.cli._discovery import command_names

        for written, value in table.items():
            name = written.replace("_", "-")
            if self._is_full and name not in NAMES and not isinstance(value, dict):
                continue
            line = _line_of(written, command, text)
            where = f"{_short(path)}:{line}" if line else _short(path)
            if name in NAMES:
                setting = Setting(name, value, source, where, command, path.parent)
                self.written.append(setting)
            elif command is None and isinstance(value, dict) and name in command_names():
                self._take(value, source, path, text, name)
            else:
                near = nearest(name, list(NAMES))
                hint = f"; did you mean {near}?" if near else ". `rerail config` lists them"
                self._leave_out(f"{where}: there is no setting {written!r}{hint}")

    @property
    def _is_full(self) -> bool:
        return len(self.problems) >= _MOST_PROBLEMS

    def _leave_out(self, problem: str) -> None:
        """In a line that a person reads, and not more of them than one does."""
        told = problem[:_LONGEST_PROBLEM]
        if told not in self.problems and not self._is_full:
            self.problems.append(told)


def settable(command: click.Command) -> Iterator[click.Option]:
    """The options of a command that can be set."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and setting_name(parameter) in NAMES:
            yield parameter


def _all_settable(command: click.Command) -> Iterator[click.Option]:
    """The options of a command, or of all the commands in a group, that can be set."""
    yield from settable(command)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _all_settable(inner)


def setting_name(option: click.Option) -> str:
    return next((word[2:] for word in option.opts if word.startswith("--")), "")


def variable_of(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_")


def nearest(word: str, words: list[str]) -> str | None:
    import difflib  # here, not above: it costs the start of every `rerail run` milliseconds

    return next(iter(difflib.get_close_matches(word, words, n=1, cutoff=0.75)), None)


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Where a user's own settings are, by the rules of XDG."""
    for variable, inside in (("XDG_CONFIG_HOME", ""), ("HOME", ".config")):
        base = environ.get(variable) or ""
        if base.startswith("/"):
            return Path(base) / inside / "rerail.toml"
    return None


def _refuse_strangers(path: Path) -> None:
    owner = path.stat().st_uid
    if owner not in (0, os.geteuid()):
        raise ValueError(f"it belongs to another user (number {owner}), and may name commands")


def _parsed(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    parts = 0
    for part in text.split("."):  # not by a pattern: the text is anybody's
        is_of_key = part and not any(sign in part for sign in "\n,=[")
        parts = parts + 1 if is_of_key else 0
        if parts > _MOST_PARTS:
            raise ValueError(f"a key has more than {_MOST_PARTS} parts")
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("its tables are nested too deeply") from None
    return tables


def _line_of(key: str, command: str | None, text: str) -> int | None:
    """The line of a key, as people write it; None for other ways to write the same."""
    if len(text) > _LARGEST_WITH_LINES:
        return None
    wanted = f"rerail.{command}" if command else "rerail"
    table = wanted if "[" not in text.partition(key)[0] else ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            table = line.split("#")[0].strip(" \t[]").removeprefix("tool.")
            table = table if table.startswith("rerail") else f"rerail.{table}"
        elif table == wanted and line.partition("=")[0].strip(" \t\"'") == key:
            return number
    return None


def _converted(option: click.Option, setting: Setting) -> Any:
    """The value as if it had been typed; ValueError says what is wrong with it."""
    value = setting.value
    if setting.source != ENVIRONMENT:
        _check_kind(option, value)
    try:
        if option.multiple:
            values = value.split() if setting.source == ENVIRONMENT else value
            values = [values] if isinstance(values, str) else values
            return [_one(option, item, setting) for item in values]
        return _one(option, value, setting)
    except (click.BadParameter, UsageError) as error:
        raise ValueError(error.message.rstrip(".")) from None


def _one(option: click.Option, value: Any, setting: Setting) -> Any:
    if isinstance(option.type, click.Path) and setting.base is not None:
        try:
            value = str(setting.base / Path(value).expanduser())
        except RuntimeError:
            raise ValueError("there is no user of that name") from None
    kind = click.BOOL if option.is_flag else option.type
    converted = kind.convert(value, option, None)
    if isinstance(converted, str) and not converted.strip():
        raise ValueError("it is empty")
    return converted


def _check_kind(option: click.Option, value: Any) -> None:
    """What TOML tells apart and click does not: `stall = true` is no number."""
    many = option.multiple and isinstance(value, list)
    for item in value if many else [value]:
        if option.is_flag:
            wanted, is_right = "true or false", isinstance(item, bool)
        elif isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType)):
            is_right = isinstance(item, (int, float)) and not isinstance(item, bool)
            wanted = "a number"
        elif isinstance(option.type, (click.types.StringParamType, click.Path, click.Choice)):
            wanted, is_right = "a text in quotes", isinstance(item, str)
        else:
            wanted, is_right = "a text or a number", isinstance(item, (str, int, float))
        if not is_right:
            raise ValueError(f"it has to be {wanted}")


def _short(path: Path) -> str:
    """As a person would write it from here."""
    for base, prefix in ((_here(), ""), (os.environ.get("HOME", ""), "~/")):
        if base and path.is_relative_to(base):
            return f"{prefix}{path.relative_to(base)}"
    return str(path)


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""
