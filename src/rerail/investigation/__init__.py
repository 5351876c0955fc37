"""Which change removes the failure? Hypotheses, the planner of trials, and the verdict.

`Investigation` is the door: it asks for trials and takes their results; running them is for
others.
"""

from rerail.investigation.inquiry import Investigation
from rerail.investigation.observation import Plan, TrialResult
from rerail.investigation.verdict import Likely, RuledOut, Verdict

__all__ = ["Investigation", "Likely", "Plan", "RuledOut", "TrialResult", "Verdict"]
