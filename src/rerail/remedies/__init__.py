"""Remedies: apply one, prove it, and go on from the newest checkpoint that really loads.

`run_with_restarts` and `verify` are the doors; they are imported from their modules, so that nobody
waits for those that are not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.remedies.restart.apply import Applied, merged, prescribe
    from rerail.remedies.restart.death import Death, diagnosed_death
    from rerail.remedies.restart.judgement import Attempt, why_not_again
    from rerail.remedies.restart.paragraphs import paragraph
    from rerail.remedies.restart.restart import RestartOptions, run_with_restarts
    from rerail.remedies.restart.story import Story
    from rerail.remedies.verification import verify_view
    from rerail.remedies.verification.verify import VerifyOptions, verify

__all__ = [
    "Applied",
    "Attempt",
    "Death",
    "RestartOptions",
    "Story",
    "VerifyOptions",
    "diagnosed_death",
    "merged",
    "paragraph",
    "prescribe",
    "run_with_restarts",
    "verify",
    "verify_view",
    "why_not_again",
]

__getattr__ = door(
    __name__,
    {
        "Applied": "restart.apply",
        "Attempt": "restart.judgement",
        "Death": "restart.death",
        "RestartOptions": "restart.restart",
        "Story": "restart.story",
        "VerifyOptions": "verification.verify",
        "diagnosed_death": "restart.death",
        "merged": "restart.apply",
        "paragraph": "restart.paragraphs",
        "prescribe": "restart.apply",
        "run_with_restarts": "restart.restart",
        "verify": "verification.verify",
        "verify_view": "verification.verify_view",
        "why_not_again": "restart.judgement",
    },
)
