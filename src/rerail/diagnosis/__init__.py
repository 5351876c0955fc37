"""Ranked causes, with what speaks for and against each."""

from rerail.diagnosis.diagnose import diagnose
from rerail.diagnosis.explain import answer_on_record, explain_logs, explain_run, explain_stream
from rerail.diagnosis.result import Candidate, Diagnosis, NextStep

__all__ = [
    "Candidate",
    "Diagnosis",
    "NextStep",
    "answer_on_record",
    "diagnose",
    "explain_logs",
    "explain_run",
    "explain_stream",
]
