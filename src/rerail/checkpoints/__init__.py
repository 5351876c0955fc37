"""Checkpoints of the user's program: which one really loads, how a command is told to go on from
it, and copies that somebody else may write to.

Nothing in a checkpoint is executed, and none is ever moved, changed or deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.checkpoints.check import Soundness, check_checkpoint
    from rerail.checkpoints.choose import Choice, choose_checkpoint, find_checkpoints, numbers_in
    from rerail.checkpoints.copies import NoRoom, copy_apart, remove_copies, size_of
    from rerail.checkpoints.resume import ResumeArguments, checked_resume, parse_resume_arguments
    from rerail.checkpoints.step_clock import StepClock, read_clock

__all__ = [
    "Choice",
    "NoRoom",
    "ResumeArguments",
    "Soundness",
    "StepClock",
    "check_checkpoint",
    "checked_resume",
    "choose_checkpoint",
    "copy_apart",
    "find_checkpoints",
    "numbers_in",
    "parse_resume_arguments",
    "read_clock",
    "remove_copies",
    "size_of",
]

__getattr__ = door(
    __name__,
    {
        "Choice": "choose",
        "NoRoom": "copies",
        "ResumeArguments": "resume",
        "Soundness": "check",
        "StepClock": "step_clock",
        "check_checkpoint": "check",
        "checked_resume": "resume",
        "choose_checkpoint": "choose",
        "copy_apart": "copies",
        "find_checkpoints": "choose",
        "numbers_in": "choose",
        "parse_resume_arguments": "resume",
        "read_clock": "step_clock",
        "remove_copies": "copies",
        "size_of": "copies",
    },
)
