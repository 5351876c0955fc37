"""Remedies: apply one, prove it, and go on from the newest checkpoint that really loads.

`run_with_restarts` and `verify` are the doors; they are imported from their modules, so that nobody
waits for those that are not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.remedies.restart.apply import Applied, merged, prescribe
    from rerail.remedies.restart.death import told_to_end
    from rerail.remedies.restart.paragraphs import paragraph
    from rerail.remedies.restart.restart import RestartOptions, run_with_restarts
    from rerail.remedies.restart.story import Story
    from rerail.remedies.verification import verify_view
    from rerail.remedies.verification.verify import VerifyOptions, verify

__all__ = [
    "Applied",
    "RestartOptions",
    "Story",
    "VerifyOptions",
    "merged",
    "paragraph",
    "prescribe",
    "run_with_restarts",
    "told_to_end",
    "verify",
    "verify_view",
]

__getattr__ = door(
    __name__,
    {
        "Applied": "restart.apply",
        "RestartOptions": "restart.restart",
        "Story": "restart.story",
        "VerifyOptions": "verification.verify",
        "merged": "restart.apply",
        "paragraph": "restart.paragraphs",
        "prescribe": "restart.apply",
        "run_with_restarts": "restart.restart",
        "told_to_end": "restart.death",
        "verify": "verification.verify",
        "verify_view": "verification.verify_view",
    },
)
