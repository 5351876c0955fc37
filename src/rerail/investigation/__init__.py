"""Which change removes the failure? Hypotheses, the planner of trials, and the verdict.

`Investigation` is the door: it asks for trials and takes their results; running them is for
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.investigation.edits.versions import ProgramVersions
    from rerail.investigation.environments.since import upgrades_since
    from rerail.investigation.environments.upgrades import read_upgrades
    from rerail.investigation.environments.uv import EnvironmentNotBuilt
    from rerail.investigation.planner.inquiry import Investigation
    from rerail.investigation.planner.observation import Plan, TrialResult
    from rerail.investigation.planner.verdict import Likely, RuledOut, Verdict
    from rerail.investigation.session.answer import investigation_answer, runs_with_failure
    from rerail.investigation.session.earlier import EarlierRun, earlier_runs, lifetimes
    from rerail.investigation.session.exposure import Distance, Unit, measure
    from rerail.investigation.session.failure import (
        STOPPING_SIGNALS,
        Diagnostician,
        Failure,
        failure_of,
        told_to_end,
    )
    from rerail.investigation.session.from_checkpoint import UNTIL_SEEN
    from rerail.investigation.session.live_view import (
        LINE_SECONDS,
        Lines,
        LiveView,
        ask_beside,
        bar,
        how_far,
    )
    from rerail.investigation.session.never_failed import clean_so_far
    from rerail.investigation.session.outcome import Wanted, judge_run, lived_so_far
    from rerail.investigation.session.session import investigate
    from rerail.investigation.session.shield import Asking, Shield
    from rerail.investigation.session.start import Start, about_the_start
    from rerail.investigation.session.trial import Trial, Verification, changes_in_words
    from rerail.investigation.session.trial_look import POLL_SECONDS, look_at, stop
    from rerail.investigation.session.trial_setup import ReadyTrial, TrialSetup
    from rerail.investigation.session.view import about_outputs, summary_lines
    from rerail.investigation.session.watching import IsolateOptions

__all__ = [
    "LINE_SECONDS",
    "POLL_SECONDS",
    "STOPPING_SIGNALS",
    "UNTIL_SEEN",
    "Asking",
    "Diagnostician",
    "Distance",
    "EarlierRun",
    "EnvironmentNotBuilt",
    "Failure",
    "Investigation",
    "IsolateOptions",
    "Likely",
    "Lines",
    "LiveView",
    "Plan",
    "ProgramVersions",
    "ReadyTrial",
    "RuledOut",
    "Shield",
    "Start",
    "Trial",
    "TrialResult",
    "TrialSetup",
    "Unit",
    "Verdict",
    "Verification",
    "Wanted",
    "about_outputs",
    "about_the_start",
    "ask_beside",
    "bar",
    "changes_in_words",
    "clean_so_far",
    "earlier_runs",
    "failure_of",
    "how_far",
    "investigate",
    "investigation_answer",
    "judge_run",
    "lifetimes",
    "lived_so_far",
    "look_at",
    "measure",
    "read_upgrades",
    "runs_with_failure",
    "stop",
    "summary_lines",
    "told_to_end",
    "upgrades_since",
]

__getattr__ = door(
    __name__,
    {
        "LINE_SECONDS": "session.live_view",
        "UNTIL_SEEN": "session.from_checkpoint",
        "Start": "session.start",
        "about_the_start": "session.start",
        "Diagnostician": "session.failure",
        "Distance": "session.exposure",
        "EarlierRun": "session.earlier",
        "EnvironmentNotBuilt": "environments.uv",
        "Failure": "session.failure",
        "Investigation": "planner.inquiry",
        "IsolateOptions": "session.watching",
        "Likely": "planner.verdict",
        "Lines": "session.live_view",
        "LiveView": "session.live_view",
        "ask_beside": "session.live_view",
        "bar": "session.live_view",
        "clean_so_far": "session.never_failed",
        "how_far": "session.live_view",
        "Plan": "planner.observation",
        "ProgramVersions": "edits.versions",
        "ReadyTrial": "session.trial_setup",
        "RuledOut": "planner.verdict",
        "Trial": "session.trial",
        "TrialResult": "planner.observation",
        "Asking": "session.shield",
        "Shield": "session.shield",
        "TrialSetup": "session.trial_setup",
        "Unit": "session.exposure",
        "Verdict": "planner.verdict",
        "Verification": "session.trial",
        "changes_in_words": "session.trial",
        "earlier_runs": "session.earlier",
        "failure_of": "session.failure",
        "POLL_SECONDS": "session.trial_look",
        "STOPPING_SIGNALS": "session.failure",
        "look_at": "session.trial_look",
        "stop": "session.trial_look",
        "Wanted": "session.outcome",
        "judge_run": "session.outcome",
        "lived_so_far": "session.outcome",
        "told_to_end": "session.failure",
        "investigate": "session.session",
        "investigation_answer": "session.answer",
        "runs_with_failure": "session.answer",
        "lifetimes": "session.earlier",
        "measure": "session.exposure",
        "read_upgrades": "environments.upgrades",
        "upgrades_since": "environments.since",
        "about_outputs": "session.view",
        "summary_lines": "session.view",
    },
)
