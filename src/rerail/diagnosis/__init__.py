"""Ranked causes, with what speaks for and against each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.diagnosis.explain import (
        answer_on_record,
        diagnosis_on_record,
        explain_logs,
        explain_run,
        explain_stream,
    )
    from rerail.diagnosis.from_evidence import diagnose
    from rerail.diagnosis.result import Candidate, Diagnosis, NextStep
    from rerail.diagnosis.why_not import WhyNot, unknown_cause

__all__ = [
    "Candidate",
    "Diagnosis",
    "NextStep",
    "WhyNot",
    "answer_on_record",
    "diagnose",
    "diagnosis_on_record",
    "explain_logs",
    "explain_run",
    "explain_stream",
    "unknown_cause",
]

__getattr__ = door(
    __name__,
    {
        "Candidate": "result",
        "Diagnosis": "result",
        "NextStep": "result",
        "WhyNot": "why_not",
        "answer_on_record": "explain",
        "diagnose": "from_evidence",
        "diagnosis_on_record": "explain",
        "explain_logs": "explain",
        "explain_run": "explain",
        "explain_stream": "explain",
        "unknown_cause": "why_not",
    },
)
