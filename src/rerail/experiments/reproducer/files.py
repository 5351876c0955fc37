"""The files of a reproducer: run.sh, which fails, and README.md, which says what to expect."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rerail.errors import UsageError
from rerail.experiments.trials.failure import Failure
from rerail.platform.os_text import to_bytes
from rerail.platform.user_files import write_user_file
from rerail.store import layout

RUN = "run.sh"
README = "README.md"
DATA = "data"


@dataclass(frozen=True)
class Reproducer:
    command: tuple[str, ...]
    cwd: str
    failure: Failure
    runs: int = 1  # how many runs make it likely to be seen
    inside: dict[str, str] = field(default_factory=dict)  # changes that the agent makes
    left_away: tuple[str, ...] = ()
    seen: tuple[int, int] = (0, 0)  # of so many runs of the command, so many failed
    distance: str = ""  # how far it came


def refuse_if_taken(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is there already and is not an empty folder",
            "Nothing is overwritten: name another folder with --reproducer.",
        )


def write(folder: Path, reproducer: Reproducer) -> None:
    layout.make_folder(folder)
    write_user_file(folder / RUN, to_bytes(_script(reproducer)), 0o700, is_exact=True)
    write_user_file(folder / README, to_bytes(_readme(reproducer)), 0o600)


def _script(reproducer: Reproducer) -> str:
    command = shlex.join(reproducer.command)
    lines = ["#!/bin/sh", f"# Fails: {reproducer.failure.summary}"]
    lines.append(f"cd -- {shlex.quote(reproducer.cwd)} || exit 2")
    if reproducer.inside:
        changes = shlex.quote(json.dumps(reproducer.inside, sort_keys=True))
        lines.append("# rerail serves the program a part of its data (docs/isolate.md).")
        command = f"RERAIL_CHANGES={changes} rerail run -- {command}"
    if reproducer.runs == 1:
        lines.append(f"exec {command}" if not reproducer.inside else command)
    else:
        lines += [
            "# It fails at random: run until it does.",
            "n=0",
            f'while [ "$n" -lt "${{RUNS:-{reproducer.runs}}}" ]; do',
            "  n=$((n + 1))",
            f"  {command} || exit",
            "done",
        ]
    return "\n".join(lines) + "\n"


def _readme(reproducer: Reproducer) -> str:
    failure = reproducer.failure
    cause = f" (`{failure.cause}`)" if failure.cause else ""
    lines = [
        "# The smallest command that still fails",
        "",
        "```",
        f"sh {RUN}",
        "```",
        "",
        f"Expect: {failure.summary}{cause}{reproducer.distance}.",
    ]
    failed, runs = reproducer.seen
    if runs:
        lines.append(f"It failed in {failed} of {runs} run{'s' * (runs > 1)} here.")
    if reproducer.runs > 1:
        lines.append(
            f"It comes at random: `{RUN}` repeats the command up to {reproducer.runs} times"
            " (RUNS=N says how often) and ends when it fails."
        )
    lines += ["", "The command:", "", "```", shlex.join(reproducer.command), "```", ""]
    if reproducer.left_away:
        lines += ["Left away, as it fails without:", ""]
        lines += [f"- `{piece}`" for piece in reproducer.left_away]
        lines.append("")
    lines += [f"It runs in `{reproducer.cwd}`, with the program and the data that are there."]
    return "\n".join(lines) + "\n"


def as_texts(pieces: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(shlex.join(piece) for piece in pieces)
