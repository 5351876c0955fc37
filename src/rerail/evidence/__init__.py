"""Observations, each with its source, from a run folder or from the text of logs."""

from __future__ import annotations

from typing import Any

from rerail.evidence.text.logs import TextEvidence, collect_logs, collect_stream, observe_text

__all__ = ["TextEvidence", "collect_logs", "collect_run", "collect_stream", "observe_text"]


def __getattr__(name: str) -> Any:
    """`collect_run` is imported when asked for: reading a log file needs nothing of the store."""
    if name == "collect_run":
        from rerail.evidence.run.collect import collect_run

        return collect_run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
