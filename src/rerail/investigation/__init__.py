"""Which change removes the failure? Hypotheses, the planner of trials, and the verdict.

`Investigation` is the door: it asks for trials and takes their results; running them is for
others.
"""

from rerail.investigation.planner.inquiry import Investigation
from rerail.investigation.planner.observation import Plan, TrialResult
from rerail.investigation.planner.verdict import Likely, RuledOut, Verdict

__all__ = ["Investigation", "Likely", "Plan", "RuledOut", "TrialResult", "Verdict"]
