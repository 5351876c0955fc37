"""Reading a study file.

In: a TOML file (docs/study.md). Out: a `Study`. Promises: what is wrong is refused before anything
runs, with the file, the line, and what was expected there; a setting that nothing would read is
wrong too.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, cast

from rerail.errors import UnreadableInput
from rerail.platform.command_line import is_shell, program_name
from rerail.platform.patterns import linear
from rerail.store import read_regular
from rerail.study.cells import expand, placeholders
from rerail.study.fields import Table, WrongStudyFile, in_words
from rerail.study.lines import KeyLines
from rerail.study.model import (
    Axis,
    ExplicitCell,
    Goal,
    Keep,
    Limits,
    Metric,
    Resume,
    Study,
    Take,
)

_TOP = {
    *("name", "command", "seeds", "inputs", "artifacts", "results", "folder", "keep"),
    *("axes", "cell", "environment", "metrics", "limits", "resume"),
}
MOST_BYTES = 4 << 20
_LIMITS = {"cores", "memory", "time", "stall", "jobs", "retries"}
_NAME = linear(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")
_VARIABLE = linear(r"[A-Z_][A-Z0-9_]*")


def load_study(path: Path | str) -> Study:
    path = Path(path).absolute()
    text = _read(path)
    top = Table(path, KeyLines(text), _parse(path, text), ())
    top.only(_TOP)
    name = top.text("name", path.stem)
    if not _NAME.fullmatch(name):
        raise top.refuse("name", f"expected letters, digits, . _ = + or -, found {name!r}")
    # Resolved: processes are found by it, however the file was reached.
    folder = (path.parent / top.text("folder", f"{name}.study")).resolve()
    results = path.parent / top.text("results") if "results" in top else folder / "results"
    if max(len(part.encode()) for part in (*folder.parts, *results.parts)) > 255:
        raise top.refuse("folder", "expected a name that a file system takes: it is too long")
    study = Study(
        path=path,
        name=name,
        folder=folder,
        results=results,
        command=_command(top),
        axes=_axes(top),
        explicit=_explicit(top),
        seeds=_seeds(top),
        environment=_environment(top),
        inputs=_inputs(top),
        artifacts=_artifacts(top),
        metrics=tuple(_metric(top.table("metrics"), name) for name in top.table("metrics").values),
        limits=_limits(top.table("limits")),
        resume=_resume(top),
        keep=cast(Keep, top.choice("keep", ("last", "all", "artifacts"), "last")),
    )
    _check_names(top, study)
    _check_paths(top, study)
    expand(study)
    return study


def _read(path: Path) -> str:
    try:
        return read_regular(path, MOST_BYTES, follows_links=True).decode()
    except FileNotFoundError:
        raise UnreadableInput(
            f"there is no study file {path}",
            "Write a first one from a command: rerail study new -- python train.py",
        ) from None
    except OSError as error:
        raise UnreadableInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableInput(f"{path} is not text in UTF-8, as TOML is") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(text)
        return table
    except RecursionError:
        raise WrongStudyFile(f"{path}: lists or tables in it are nested too deeply") from None
    except ValueError as error:
        if not isinstance(error, tomllib.TOMLDecodeError):  # a number of thousands of digits
            raise WrongStudyFile(f"{path}: a value in it is out of all bounds") from None
        raise _not_toml(path, text, error) from None


def _not_toml(path: Path, text: str, error: ValueError) -> WrongStudyFile:
    found = re.search(r"\(at line (\d+), column (\d+)\)|\(at end of document\)", str(error))
    line = found[1] if found and found[1] else len(text.splitlines()) or 1
    problem = str(error).partition(" (at ")[0]
    return WrongStudyFile(
        f"{path}:{line}: not TOML: {problem[:1].lower()}{problem[1:]}",
        'Texts need quotes: command = "python train.py". Lists need brackets: [1, 2].',
    )


def _command(top: Table) -> tuple[str, ...]:
    if "command" not in top:
        raise top.refuse(
            None, "there is no command", 'Write one: command = "python train.py --epochs 3"'
        )
    value = top.values["command"]
    if isinstance(value, str):
        words = _split(top, "command", value)
    else:
        words = list(top.texts("command"))
    if not words:
        raise top.refuse("command", "expected a command, found an empty one")
    return tuple(words)


def _split(table: Table, key: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise table.refuse(key, f"cannot be split into words: {error}") from None


def _axes(top: Table) -> tuple[Axis, ...]:
    table = top.table("axes")
    found = []
    for name, values in table.values.items():
        if not isinstance(values, list):
            raise table.refuse(
                name, f"expected a list of values such as [0, 0.3], found {in_words(values)}"
            )
        if not values:
            raise table.refuse(name, "expected at least one value, found an empty list")
        parsed = tuple(table.parameter(name, value) for value in values)
        if len(set(map(repr, parsed))) < len(parsed):
            raise table.refuse(name, "a value is there twice: two cells would be one")
        found.append(Axis(name, parsed))
    return tuple(found)


def _explicit(top: Table) -> tuple[ExplicitCell, ...]:
    found = []
    for table in top.tables("cell"):
        name = table.text("name")
        if name and not _NAME.fullmatch(name):
            raise table.refuse("name", f"expected letters, digits, . _ = + or -, found {name!r}")
        parameters = {
            key: table.parameter(key, value) for key, value in table.values.items() if key != "name"
        }
        found.append(ExplicitCell(name, parameters, table.line()))
    return tuple(found)


def _seeds(top: Table) -> tuple[int, ...]:
    value = top.values.get("seeds", [])
    is_numbers = isinstance(value, list) and all(type(each) is int for each in value)
    if not is_numbers or ("seeds" in top and not value):
        raise top.refuse("seeds", f"expected a list of whole numbers, found {in_words(value)}")
    if len(set(value)) < len(value):
        raise top.refuse("seeds", "a seed is there twice: two cells would be one")
    return tuple(value)


def _environment(top: Table) -> dict[str, str]:
    table = top.table("environment")
    found = {}
    for name, value in table.values.items():
        if isinstance(value, (dict, list)):
            raise table.refuse(name, f"expected text or a number, found {in_words(value)}")
        if "=" in name or not name:
            raise table.refuse(name, "is not the name of a variable")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _inputs(top: Table) -> tuple[str, ...]:
    found = top.texts("inputs")
    for each in found:
        if not is_there(top.file.parent / each):
            raise top.refuse("inputs", f"there is no {each} in {top.file.parent}")
    return found


def _artifacts(top: Table) -> tuple[str, ...]:
    found = top.texts("artifacts")
    for each in found:
        path = PurePosixPath(each)
        if path.is_absolute() or ".." in path.parts:
            raise top.refuse(
                "artifacts",
                f"expected a path within the cell's working folder, found {each!r}",
                "Cells run in folders of their own. Let the command write there: --out weights",
            )
    return found


def _metric(metrics: Table, name: str) -> Metric:
    table = metrics.table(name)
    table.only({"file", "key", "output", "take", "goal"})
    if ("file" in table) == ("output" in table):
        raise metrics.refuse(
            name,
            "expected either file (with key) or output",
            f'For example: [metrics.{name}] file = "metrics.json", key = "{name}"',
        )
    pattern = table.text("output")
    if pattern:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise table.refuse("output", f"is not a regular expression: {error}") from None
        if groups < 1:
            raise table.refuse(
                "output",
                "expected a group around the number",
                f"For example: output = '{name}[ =]([-+.0-9e]+)'",
            )
    file = table.text("file")
    if file and not file.endswith((".json", ".jsonl")):
        raise table.refuse("file", f"expected a .json or .jsonl file, found {file!r}")
    goal = table.choice("goal", ("max", "min"), "max") if "goal" in table else None
    return Metric(
        name=name,
        file=file,
        key=table.text("key", name) if file else "",
        output=pattern,
        take=cast(Take, table.choice("take", ("last", "first", "max", "min"), "last")),
        goal=cast("Goal | None", goal),
    )


def _limits(table: Table) -> Limits:
    table.only(_LIMITS)
    retries = table.values.get("retries", {})
    if isinstance(retries, int) and not isinstance(retries, bool):
        retries = {"default": retries}
        if retries["default"] < 0:
            raise table.refuse("retries", "expected 0 or more")
    else:
        causes = table.table("retries")
        retries = {key: causes.count(key, least=0) for key in causes.values}
        _check_causes(causes)
    return Limits(
        cores=table.count("cores"),
        memory_bytes=table.size_bytes("memory"),
        time_seconds=table.seconds("time"),
        stall_seconds=table.seconds("stall"),
        jobs=table.count("jobs") or 1,
        retries=retries,
    )


def _check_causes(causes: Table) -> None:
    if set(causes.values) <= {"default"}:
        return
    from rerail.catalogue import load_catalogue

    known = load_catalogue()
    for cause in causes.values:
        if cause != "default" and cause not in known:
            raise causes.refuse(cause, "there is no such cause", "`rerail causes` lists them.")


def _resume(top: Table) -> Resume | None:
    if "resume" not in top:
        return None
    table = top.table("resume")
    table.only({"checkpoint", "arguments"})
    if "checkpoint" not in table:
        raise table.refuse(None, "there is no checkpoint", 'checkpoint = "weights/last.pt"')
    arguments = table.values.get("arguments", [])
    if isinstance(arguments, str):
        words: Sequence[str] = _split(table, "arguments", arguments)
    else:
        words = table.texts("arguments")
    return Resume(table.text("checkpoint"), tuple(words))


def _check_names(top: Table, study: Study) -> None:
    """Every axis must reach the command, and every {name} of the command must be one."""
    used = placeholders(study)
    for axis in study.axes:
        table = top.table("axes")
        if axis.name.startswith("-"):
            _check_option(table, study, axis.name)
        elif axis.name not in used and not _VARIABLE.fullmatch(axis.name):
            raise table.refuse(
                axis.name,
                "nothing of the command would change with it",
                f"Write {{{axis.name}}} where its value belongs in the command, or call it"
                f" '--{axis.name}'\nfor an option, or {axis.name.upper().replace('-', '_')} for a"
                " variable of the environment.",
            )
    known = {"seed", "here", "cell", *(axis.name for axis in study.axes)}
    for cell in study.explicit:
        known |= set(cell.parameters)
    for name in used:
        if name not in known:
            raise top.refuse(
                "command",
                f"{{{name}}} is no axis, nor seed, cell or here",
                f"Write {{{{{name}}}}} if the braces belong to the command.",
            )
    if len(study.seeds) > 1 and "seed" not in used:
        raise top.refuse(
            "seeds",
            "the seed does not reach the command: every seed would give the same",
            'Write --seed {seed} in the command, or SEED = "{seed}" under [environment].',
        )


def _check_option(table: Table, study: Study, name: str) -> None:
    program = program_name(study.command[0])
    if is_shell(program):
        raise table.refuse(
            name,
            f"an option cannot be added to a script for {program}",
            f"Name the axis {name.lstrip('-')} and write {{{name.lstrip('-')}}} in the script.",
        )
    if any(word == name or word.startswith(f"{name}=") for word in study.command[1:]):
        raise table.refuse(name, "the command gives it too", "Take it out of the command.")


def _check_paths(top: Table, study: Study) -> None:
    """A script that lies beside the study file is not in the cells' own folders."""
    linked = [PurePosixPath(each) for each in study.inputs]
    for word in study.command:
        path = PurePosixPath(word)
        if path.is_absolute() or not path.parts or path.suffix not in (".py", ".sh"):
            continue
        covered = any(each == path or each in path.parents for each in linked)
        if not covered and is_there(study.base / word):
            raise top.refuse(
                "command",
                f"{word} is in {study.base}, but every cell runs in a folder of its own",
                f'Link it there: inputs = ["{path.parts[0]}"], or write {{here}}/{word}.',
            )


def is_there(path: Path) -> bool:
    """Path.exists raises for a name that is too long to be one."""
    try:
        return path.exists()
    except OSError:
        return False
