"""Remedies: prescribe and apply one, and go on from the newest checkpoint that really loads."""

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

__all__ = [
    "Applied",
    "Attempt",
    "Death",
    "RestartOptions",
    "Story",
    "diagnosed_death",
    "merged",
    "paragraph",
    "prescribe",
    "run_with_restarts",
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
        "diagnosed_death": "restart.death",
        "merged": "restart.apply",
        "paragraph": "restart.paragraphs",
        "prescribe": "restart.apply",
        "run_with_restarts": "restart.restart",
        "why_not_again": "restart.judgement",
    },
)
