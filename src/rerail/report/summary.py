"""One page that says it all: what a colleague reads before anything else.

In: a (masked) run and its diagnosis. Out: Markdown of at most about sixty lines.
"""

from __future__ import annotations

from typing import Any

from rerail.diagnosis import Diagnosis
from rerail.evidence import RecordedRun
from rerail.report.markdown import code, escape, fenced
from rerail.report.verdict import cause_views, fact_list
from rerail.report.view import command_line
from rerail.wording import percent, seconds_in_words, sentence

_MOST_EVIDENCE = 5
_MOST_REMEDIES = 4


def summary_page(run: RecordedRun, diagnosis: Diagnosis) -> str:
    """With what else is in the package."""
    return f"{answer_in_markdown(run, diagnosis)}\n\n{_CONTENTS}\n"


def answer_in_markdown(run: RecordedRun, diagnosis: Diagnosis) -> str:
    causes = cause_views(diagnosis)
    summary = sentence(
        diagnosis.outcome.summary
        or (run.info.outcome.summary if run.info.outcome else "How it ended is not known")
    )
    parts = [f"# {escape(diagnosis.headline_on_record or summary)}", escape(summary)]
    parts.append(fenced(command_line(run.info.command)))
    if run.info.elapsed_seconds is not None:
        parts.append(f"It ran for {seconds_in_words(run.info.elapsed_seconds)}.")
    if causes:
        parts += _leading(causes[0])
        if len(causes) > 1:
            others = [f"{escape(c.title)} ({percent(c.probability)})" for c in causes[1:4]]
            parts.append("Less likely: " + "; ".join(others) + ".")
    facts = fact_list(diagnosis).items
    if facts:
        parts.append("\n".join(f"- {escape(name)}: {escape(value)}" for name, value in facts))
    return "\n\n".join(parts)


def _leading(cause: Any) -> list[str]:
    parts = [f"Cause: {code(cause.id)}, with probability {percent(cause.probability)}."]
    if cause.evidence_for:
        rows = [
            f"- {escape(item.text)} ({code(item.source)})"
            for item in cause.evidence_for[:_MOST_EVIDENCE]
        ]
        parts.append("Because:\n\n" + "\n".join(rows))
    if cause.remedies:
        rows = []
        for remedy in cause.remedies[:_MOST_REMEDIES]:
            changes = "".join(f" {code(change)}" for change in remedy.change)
            rows.append(f"- **{escape(remedy.safety)}**: {escape(remedy.title)}{changes}")
        parts.append("What to do:\n\n" + "\n".join(rows))
    return parts


_CONTENTS = """\
In this package: `report.html` (everything on one page, opens offline), `report.md`, `output.txt`
(what the command printed), `diagnosis.json`, `configuration.json`, `versions.txt`, `reproduce.sh`,
`vitals.csv` (memory and the rest over time), `events.jsonl`, `crashes.json`. Secrets, home folders,
user and host names are masked; the same mask is the same value."""
