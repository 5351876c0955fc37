"""The one file of a run folder that holds secrets: `private.jsonl`, 0600, never packed or shown.

In: a run folder. Out: the command as it was typed, the variables that are masked elsewhere, and the
value behind each numbered mask. Written as the run goes: a line when something was recognised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rerail.store import layout
from rerail.store.jsonlines import read_objects


@dataclass(frozen=True)
class PrivateRecord:
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    # By the number of their mask: the value, and what it is (`GitHub token`).
    secrets: dict[int, tuple[str, str]] = field(default_factory=dict)


def read_private(folder: Path) -> PrivateRecord:
    """Empty where there is none: a run of an earlier version, or one that was sent."""
    found = PrivateRecord()
    for line in read_objects(folder / layout.PRIVATE):
        command, environment = line.get("command"), line.get("environment")
        if isinstance(command, list):
            found.command.extend(str(argument) for argument in command)
        if isinstance(environment, dict):
            found.environment.update({str(k): str(v) for k, v in environment.items()})
        number, value = line.get("secret"), line.get("value")
        if isinstance(number, int) and isinstance(value, str):
            found.secrets[number] = (value, str(line.get("what", "secret")))
    return found
