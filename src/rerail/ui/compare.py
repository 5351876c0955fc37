"""What differs between runs: command, environment, packages, code, machine.

In: the recorded surroundings of two runs or more. Out: one table per kind of difference, with only
the rows in which they differ. Texts are masked by the caller.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rerail.records import RunInfo
from rerail.report.run_list import how_it_ended
from rerail.wording import bytes_in_words, duration_in_words

MOST_ROWS = 400
_LONGEST = 400
# Set anew for every process; a difference in them says nothing about the runs.
_OF_THE_MOMENT = {"_", "SHLVL", "OLDPWD", "WINDOWID", "SSH_CLIENT", "SSH_CONNECTION"}


def differences(
    infos: Sequence[RunInfo], surroundings: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Tables of `{"name", "rows": [{"what", "values"}], "same"}`, those without a row left out."""
    tables = [
        _table("Run", [_run_facts(info) for info in infos]),
        _table("Command", [_words(info.command) for info in infos]),
        _table("Code", [_flat(each.get("git")) for each in surroundings]),
        _table("Packages", [_packages(each) for each in surroundings]),
        _table("Environment", [_environment(each) for each in surroundings]),
        _table("Interpreter", [_interpreter(each) for each in surroundings]),
        _table("Machine", [_machine(each) for each in surroundings]),
    ]
    return [table for table in tables if table["rows"] or table["same"]]


def _table(name: str, columns: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    names = dict.fromkeys(key for column in columns for key in column)
    rows: list[dict[str, Any]] = []
    same = 0
    for key in names:
        values = [column.get(key, "") for column in columns]
        if len(set(values)) == 1:
            same += 1
        elif len(rows) < MOST_ROWS:
            rows.append({"what": key, "values": [value[:_LONGEST] for value in values]})
    return {"name": name, "rows": rows, "same": same}


def _run_facts(info: RunInfo) -> dict[str, str]:
    label = info.settings.get("label")
    elapsed = info.elapsed_seconds
    return {
        "label": label if isinstance(label, str) else "",
        "ended": how_it_ended(info),
        "ran for": duration_in_words(elapsed) if elapsed is not None else "",
        "working folder": info.cwd,
        "host": info.host,
        "rerail": info.rerail_version,
    }


def _words(command: Sequence[str]) -> dict[str, str]:
    """An option with its value is one row, whatever the order; other words by their place."""
    found: dict[str, str] = {}
    words = list(command)
    at = place = 0
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        if word.startswith("-") and equals:
            found[name] = value
        elif word.startswith("-") and at + 1 < len(words) and not words[at + 1].startswith("-"):
            found[word] = words[at + 1]
            at += 1
        elif word.startswith("-"):
            found[word] = "given"
        else:
            place += 1
            found[f"word {place}"] = shlex.quote(word)
        at += 1
    return found


def _packages(surroundings: Mapping[str, Any]) -> dict[str, str]:
    interpreter = surroundings.get("interpreter")
    nested = interpreter.get("packages") if isinstance(interpreter, dict) else None
    packages = surroundings.get("packages") or nested
    if isinstance(packages, dict):
        return {str(name): str(version) for name, version in sorted(packages.items())}
    found = {}
    for item in packages if isinstance(packages, list) else []:
        if isinstance(item, dict) and "name" in item:
            found[str(item["name"])] = str(item.get("version", ""))
        elif isinstance(item, str):
            name, _, version = item.partition("==")
            found[name] = version
    return found


def _environment(surroundings: Mapping[str, Any]) -> dict[str, str]:
    variables = surroundings.get("environment")
    if not isinstance(variables, dict):
        return {}
    return {str(k): str(v) for k, v in sorted(variables.items()) if k not in _OF_THE_MOMENT}


def _interpreter(surroundings: Mapping[str, Any]) -> dict[str, str]:
    interpreter = surroundings.get("interpreter")
    if not isinstance(interpreter, dict):
        return {}
    return _flat({key: value for key, value in interpreter.items() if key != "packages"})


def _machine(surroundings: Mapping[str, Any]) -> dict[str, str]:
    """What does not change from second to second."""
    found = _flat({part: surroundings.get(part) for part in ("system", "cpu", "limits", "gpu")})
    memory = surroundings.get("memory")
    if isinstance(memory, dict) and isinstance(memory.get("total_bytes"), (int, float)):
        found["memory"] = bytes_in_words(memory["total_bytes"])
    return {name: value for name, value in found.items() if not name.endswith("boot_id")}


def _flat(value: Any, name: str = "", levels: int = 4) -> dict[str, str]:
    """Nested objects as `outer.inner` with plain values."""
    if isinstance(value, dict) and levels:
        found: dict[str, str] = {}
        for key, inner in value.items():
            found.update(_flat(inner, f"{name}.{key}" if name else str(key), levels - 1))
        return found
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value[:50])
    return {name: "" if value is None else str(value)} if name else {}
