"""Ranked causes, with what speaks for and against each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.diagnosis.chat_server import ChatServer, server_of
    from rerail.diagnosis.ending import (
        Ending,
        ending_of,
        ending_of_diagnosis,
        ending_on_record,
        leading_probability_of,
        may_hide_a_failure,
        summary_of,
    )
    from rerail.diagnosis.explain import (
        answer_on_record,
        diagnosis_on_record,
        explain_logs,
        explain_run,
        explain_stream,
    )
    from rerail.diagnosis.from_evidence import diagnose
    from rerail.diagnosis.result import Candidate, Diagnosis, NextStep
    from rerail.diagnosis.second_opinion import Question, SecondOpinion
    from rerail.diagnosis.why_not import WhyNot, unknown_cause

__all__ = [
    "Candidate",
    "ChatServer",
    "Diagnosis",
    "Ending",
    "NextStep",
    "Question",
    "SecondOpinion",
    "WhyNot",
    "answer_on_record",
    "diagnose",
    "diagnosis_on_record",
    "ending_of",
    "ending_of_diagnosis",
    "ending_on_record",
    "explain_logs",
    "explain_run",
    "explain_stream",
    "leading_probability_of",
    "may_hide_a_failure",
    "server_of",
    "summary_of",
    "unknown_cause",
]

__getattr__ = door(
    __name__,
    {
        "Candidate": "result",
        "ChatServer": "chat_server",
        "Diagnosis": "result",
        "Ending": "ending",
        "NextStep": "result",
        "Question": "second_opinion",
        "SecondOpinion": "second_opinion",
        "WhyNot": "why_not",
        "answer_on_record": "explain",
        "diagnose": "from_evidence",
        "diagnosis_on_record": "explain",
        "ending_of": "ending",
        "ending_of_diagnosis": "ending",
        "ending_on_record": "ending",
        "explain_logs": "explain",
        "explain_run": "explain",
        "explain_stream": "explain",
        "leading_probability_of": "ending",
        "may_hide_a_failure": "ending",
        "server_of": "chat_server",
        "summary_of": "ending",
        "unknown_cause": "why_not",
    },
)
