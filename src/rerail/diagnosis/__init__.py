"""Ranked causes, with what speaks for and against each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.diagnosis.chat_server import ChatServer, server_of
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
    "NextStep",
    "Question",
    "SecondOpinion",
    "WhyNot",
    "answer_on_record",
    "diagnose",
    "diagnosis_on_record",
    "explain_logs",
    "explain_run",
    "explain_stream",
    "server_of",
    "unknown_cause",
]

__getattr__ = door(
    __name__,
    {
        "Candidate": "result",
        "ChatServer": "chat_server",
        "Diagnosis": "result",
        "NextStep": "result",
        "Question": "second_opinion",
        "SecondOpinion": "second_opinion",
        "WhyNot": "why_not",
        "answer_on_record": "explain",
        "diagnose": "from_evidence",
        "diagnosis_on_record": "explain",
        "explain_logs": "explain",
        "explain_run": "explain",
        "explain_stream": "explain",
        "server_of": "chat_server",
        "unknown_cause": "why_not",
    },
)
