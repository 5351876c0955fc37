"""One story out of several attempts: what `rerail run --restarts` says and gives at its end.

In: attempts, each a recorded run with its death. Out: a line for each, and the list of them for
`--json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rerail.recorder import Recording
from rerail.remedies.restart.judgement import Attempt


@dataclass
class Story:
    """All attempts, the last one last."""

    recording: Recording
    attempts: list[Attempt] = field(default_factory=list)
    ended_because: str = ""

    def to_json(self) -> list[dict[str, Any]]:
        return [attempt_document(attempt) for attempt in self.attempts]


def attempt_in_words(attempt: Attempt) -> str:
    death = attempt.death
    began = f", from {attempt.checkpoint}" if attempt.checkpoint else ""
    changes = [change for remedy in attempt.remedies for change in remedy.changes]
    fix = f", with {' '.join(changes)}" if changes else ""
    end = f"died {attempt.died_where} of {death.cause}" if death else "ended well"
    return f"attempt {attempt.number} ({attempt.run}{began}{fix}) {end}"


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    death = attempt.death
    return {
        "attempt": attempt.number,
        "run": attempt.run,
        "resumed_from": str(attempt.checkpoint) if attempt.checkpoint else None,
        "changes": [change for remedy in attempt.remedies for change in remedy.changes],
        "outcome": death.failure.kind if death else "ok",
        "cause": death.failure.cause if death else None,
        "step": attempt.reckoned_step,
    }
