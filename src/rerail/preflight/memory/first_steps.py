"""What the dry run itself showed beside memory: how it failed, what it loaded, what it used up.

In: a rehearsal, the surroundings. Out: findings. A program that fails in its first steps is
answered with its diagnosis.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.limits import find_limits
from rerail.preflight.audit.runtimes import find_mapped_openmp
from rerail.preflight.memory.components import batches_under_way, loader_settings
from rerail.preflight.memory.growth import growth_bytes_per_step
from rerail.preflight.memory.rehearsal import Rehearsal
from rerail.wording import bytes_in_words, counted, percent

_NEAR_SHARE = 0.8


def find_in_first_steps(rehearsal: Rehearsal, around: Mapping[str, Any]) -> list[Finding]:
    if rehearsal.ending == "failed":
        return [_failure(rehearsal)]
    found = [_how_it_went(rehearsal), *_growth(rehearsal, around)]
    found += _openmp(rehearsal, around)
    settings = loader_settings(rehearsal)
    if settings is not None and settings.workers:
        found += [
            finding
            for finding in find_limits(around, settings.workers)
            if finding.id in ("fd-exhausted", "thread-limit") and finding.level != "fine"
        ]
        found += _shared_memory(rehearsal, around)
    return found


def _how_it_went(rehearsal: Rehearsal) -> Finding:
    seconds = f"{rehearsal.seconds:.0f} s"
    if rehearsal.ending == "steps":
        return Finding(
            "python-exception",
            "fine",
            f"Dry run: {counted(rehearsal.steps, 'step')} in {seconds}, nothing failed",
        )
    if rehearsal.ending == "finished":
        return Finding(
            "python-exception",
            "fine",
            f"Dry run: the program ran to its end in {seconds}, with"
            f" {counted(rehearsal.steps, 'optimizer step')}",
        )
    if rehearsal.ending == "write":
        what = rehearsal.reports[0].detail
        return Finding(
            "python-exception",
            "fine",
            f"Dry run: ended after {counted(rehearsal.steps, 'step')}, before it would {what}",
        )
    return Finding(
        "loader-hang",
        "fine",
        f"Dry run: no optimizer step was seen within {seconds}; give it longer with --seconds",
    )


def _growth(rehearsal: Rehearsal, around: Mapping[str, Any]) -> list[Finding]:
    per_step = growth_bytes_per_step(rehearsal)
    if per_step is None:
        return []
    available = (around.get("memory") or {}).get("available_bytes")
    until = ""
    if available:
        until = f" At this pace the {bytes_in_words(available)} that are free now last for about"
        until += f" {available // per_step:,} steps."
    return [
        Finding(
            "host-memory-leak",
            "risky",
            f"Memory grew {bytes_in_words(per_step)} at every step of the dry run",
            "The program keeps something of each step. A recorded run names what, and who holds"
            f" it.{until}",
            (
                "keep numbers, not tensors: losses.append(loss.item())",
                f"rerail run -- {shlex.join(rehearsal.command)}",
            ),
        )
    ]


def _failure(rehearsal: Rehearsal) -> Finding:
    diagnosis = rehearsal.diagnosis
    summary = rehearsal.outcome.summary if rehearsal.outcome else "the program failed"
    said = f" It said: {rehearsal.last_lines[-1].strip()}" if rehearsal.last_lines else ""
    if diagnosis is None or diagnosis.leading is None:
        return Finding(
            "python-exception",
            "fatal",
            f"The dry run failed: {summary}",
            f"No known cause fits.{said}",
            (f"rerail run -- {shlex.join(rehearsal.command)}",),
        )
    cause, next_step = diagnosis.leading, diagnosis.next_step
    reasons = [reason.text for reason in cause.speaks_for[:2]]
    do = [remedy.title for remedy in cause.remedies[:3]]
    if next_step is not None and next_step.command:
        do.append(next_step.command)
    return Finding(
        cause.id,
        "fatal",
        f"The dry run failed: {cause.title} ({percent(cause.probability)})",
        " ".join([f"{summary[:1].upper()}{summary[1:]}.".replace("..", "."), *reasons]),
        tuple(do),
        tuple(reason.source for reason in cause.speaks_for[:2]),
    )


def _openmp(rehearsal: Rehearsal, around: Mapping[str, Any]) -> list[Finding]:
    """What was really mapped, in the process that had most of it."""
    settings = loader_settings(rehearsal)
    forks = settings is not None and settings.workers > 0 and settings.start_method == "fork"
    environ = around.get("environment") or {}
    best: list[Finding] = []
    for libraries in rehearsal.libraries.values():
        found = [f for f in find_mapped_openmp(libraries, environ, forks) if f.level != "fine"]
        if len(found) > len(best):
            best = found
    return best


def _shared_memory(rehearsal: Rehearsal, around: Mapping[str, Any]) -> list[Finding]:
    flying = batches_under_way(rehearsal)
    total = (around.get("memory") or {}).get("shm_total_bytes")
    if not total or not flying:
        return []
    text = f"/dev/shm: {bytes_in_words(flying)} of {bytes_in_words(total)} hold batches"
    if flying < _NEAR_SHARE * total:
        return [Finding("shm-exhausted", "fine", text)]
    return [
        Finding(
            "shm-exhausted",
            "fatal" if flying >= total else "risky",
            text,
            "When it is full, the worker that writes the next batch dies of SIGBUS.",
            ("docker run --shm-size=8g", "or fewer workers, or prefetch_factor=1"),
            ("/dev/shm",),
        )
    ]
