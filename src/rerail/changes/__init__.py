"""What can be different about a command: how a person writes it, what it does, which ones fit.

`parse_change` reads one, `apply_changes` gives the words and variables that a trial runs with,
`offers` and `default_changes` say which are worth trying for a command of this kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.changes.apply import Changed, DoesNotApply, apply_changes
    from rerail.changes.candidates import default_changes, offers, priors, why_not
    from rerail.changes.parse import (
        Change,
        ChangeKind,
        exclusive_groups,
        may_move_steps,
        parse_change,
        parse_changes,
    )
    from rerail.changes.profile import Profile, read_profile
    from rerail.changes.versions import WITHOUT

__all__ = [
    "WITHOUT",
    "Change",
    "ChangeKind",
    "Changed",
    "DoesNotApply",
    "Profile",
    "apply_changes",
    "default_changes",
    "exclusive_groups",
    "may_move_steps",
    "offers",
    "parse_change",
    "parse_changes",
    "priors",
    "read_profile",
    "why_not",
]

__getattr__ = door(
    __name__,
    {
        "Change": "parse",
        "ChangeKind": "parse",
        "Changed": "apply",
        "DoesNotApply": "apply",
        "Profile": "profile",
        "apply_changes": "apply",
        "default_changes": "candidates",
        "exclusive_groups": "parse",
        "may_move_steps": "parse",
        "offers": "candidates",
        "parse_change": "parse",
        "parse_changes": "parse",
        "priors": "candidates",
        "read_profile": "profile",
        "why_not": "candidates",
        "WITHOUT": "versions",
    },
)
