"""Experiments with the user's own command: which change removes its failure, and is a fix proven?

`investigate` and `verify` start trials; the packages below plan them, make them ready, drive them
and judge them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.experiments.environments.since import upgrades_asked_for
    from rerail.experiments.isolation.answer import investigation_answer
    from rerail.experiments.isolation.options import IsolateOptions
    from rerail.experiments.isolation.session import investigate
    from rerail.experiments.isolation.summary import summary_lines
    from rerail.experiments.trials.failure import (
        Failure,
        failure_of,
        told_to_end,
    )
    from rerail.experiments.trials.live_view import Lines, Screen
    from rerail.experiments.trials.shield import Asking, Shield
    from rerail.experiments.trials.trial import changes_in_words
    from rerail.experiments.verification.session import VerifyOptions, verify

__all__ = [
    "Asking",
    "Failure",
    "IsolateOptions",
    "Lines",
    "Screen",
    "Shield",
    "VerifyOptions",
    "changes_in_words",
    "failure_of",
    "investigate",
    "investigation_answer",
    "summary_lines",
    "told_to_end",
    "upgrades_asked_for",
    "verify",
]

__getattr__ = door(
    __name__,
    {
        "Asking": "trials.shield",
        "Failure": "trials.failure",
        "IsolateOptions": "isolation.options",
        "Lines": "trials.live_view",
        "Screen": "trials.live_view",
        "Shield": "trials.shield",
        "VerifyOptions": "verification.session",
        "changes_in_words": "trials.trial",
        "failure_of": "trials.failure",
        "investigate": "isolation.session",
        "investigation_answer": "isolation.answer",
        "summary_lines": "isolation.summary",
        "told_to_end": "trials.failure",
        "upgrades_asked_for": "environments.since",
        "verify": "verification.session",
    },
)
