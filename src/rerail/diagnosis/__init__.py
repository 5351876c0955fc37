"""Ranked causes, with what speaks for and against each."""

from rerail.diagnosis.diagnose import diagnose
from rerail.diagnosis.result import Candidate, Diagnosis, NextStep

__all__ = ["Candidate", "Diagnosis", "NextStep", "diagnose"]
