"""The whole check: the environment, then a dry run of the command where that is asked for.

In: a command, folder, variables, what to try. Out: a `Check`, which knows the contract's document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.changes import parse_change
from rerail.errors import RerailError
from rerail.preflight.audit.auditing import audit
from rerail.preflight.audit.finding import Finding, by_gravity
from rerail.preflight.memory.first_steps import find_in_first_steps
from rerail.preflight.memory.plan import MemoryPlan, plan_of
from rerail.preflight.memory.rehearsal import rehearse
from rerail.preflight.memory.stopping import Stop
from rerail.preflight.memory.what_if import WhatIf, what_if

Progress = Callable[[str], None]


@dataclass
class Check:
    command: tuple[str, ...]
    findings: list[Finding] = field(default_factory=list)
    plan: MemoryPlan | None = None
    what_ifs: list[WhatIf] = field(default_factory=list)

    @property
    def is_fatal(self) -> bool:
        return any(finding.level == "fatal" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        memory = None
        if self.plan is not None:
            memory = {**self.plan.to_json(), "what_if": [w.to_json() for w in self.what_ifs]}
        return {
            "schema": 1,
            "command": list(self.command),
            "findings": [finding.to_json() for finding in self.findings],
            "memory": memory,
        }


def check(
    command: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    runs: bool = True,
    steps: int | None = None,
    most_seconds: float = 120.0,
    what_ifs: Sequence[str] = (),
    say: Progress = lambda text: None,
    stop: Stop | None = None,
) -> Check:
    """`runs`: also a dry run of the command. `stop`: what ends it early, with `Stopped`."""
    for text in what_ifs:
        parse_change(text)  # before anything is run for it
    found = audit(command, cwd, environ)
    result = Check(tuple(command), list(found.findings))
    if not command or not runs or found.target.missing_interpreter:
        return result
    say("dry run of the first steps ...")
    rehearsal = rehearse(command, cwd, environ, steps=steps, most_seconds=most_seconds, stop=stop)
    around = found.target.surroundings
    new = find_in_first_steps(rehearsal, around)
    if rehearsal.ending != "failed":
        plan = plan_of(rehearsal, around)
        if plan.peak_bytes:  # else it was over before anybody could look
            result.plan = plan
            new += plan.findings()
        for text in what_ifs if result.plan else ():
            say(f"dry runs for {text} ...")
            try:
                answer = what_if(
                    text,
                    command,
                    cwd,
                    environ,
                    plan,
                    steps=steps,
                    most_seconds=most_seconds,
                    stop=stop,
                )
            except RerailError as error:  # the rest of the answer stands all the same
                new.append(_unanswered(text, error))
            else:
                result.what_ifs.append(answer)
    result.findings = by_gravity(_merged(found.findings, new))
    return result


def _unanswered(text: str, error: RerailError) -> Finding:
    return Finding(
        "bad-config",
        "risky",
        f"What if {text}? That cannot be told",
        f"{error.message[:1].upper()}{error.message[1:]}.",
        (error.help_text,) if error.help_text else (),
    )


def _merged(before: Sequence[Finding], new: Sequence[Finding]) -> list[Finding]:
    """What was seen replaces what was only foretold of the same thing."""
    seen = {finding.id for finding in new if finding.id in _REPLACED}
    return [*(f for f in before if f.id not in seen or f.level == "fatal"), *new]


_REPLACED = {"openmp-duplicate-runtime", "host-oom", "shm-exhausted", "fd-exhausted"}
