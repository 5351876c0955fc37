"""The verdict: how it ended, why, and what to type next.

In: a diagnosis. Out: blocks. What is not known is left out; facts may be those of an older or a
newer rerail, so none is trusted to be of the right type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rerail.report.document import Block, CauseView, Cited, Facts, Paragraph, RemedyView, Section
from rerail.report.terminal_facts import STOPPED_BY_GATE, what_was_happening
from rerail.wording import bytes_in_words, percent, seconds_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rerail.diagnosis import Diagnosis
    from rerail.records import Observation

_MOST_CAUSES = 5
_MOST_EVIDENCE = 8
_LEAST_PROBABILITY = 0.02
_TOLD = ("where", "what", "who", "history")  # of what the terminal says; the rest is below

# Facts that a person wants to see, in this order, with the words for them.
_FACT_WORDS = {
    "last_step": "last step",
    "epoch": "epoch",
    "phase": "phase",
    "loss": "loss",
    "signal": "signal",
    "exit_code": "exit code",
    "python_function": "Python function",
    "peak_rss_bytes": "peak memory",
    "memory_limit_bytes": "memory limit",
    "leak_bytes_per_step": "growth per step",
    "threads": "threads",
    "fds": "open files",
    "loader_workers": "loader workers",
    "batch_size": "batch size",
    "accumulation": "accumulation",
}


def verdict_section(
    diagnosis: Diagnosis, *, is_settled: bool = False, says_next: bool = True
) -> Section:
    """`is_settled`: an experiment has said more than these probabilities."""
    blocks: list[Block] = []
    causes = cause_views(diagnosis, is_settled=is_settled)
    if not causes:
        is_ok = diagnosis.outcome.kind == "ok"
        said = "Nothing failed." if is_ok else "No cause in the catalogue fits what was observed."
        is_gate = "stopped_by_gate" in diagnosis.facts
        blocks.append(Paragraph(STOPPED_BY_GATE if is_gate else said))
    blocks += causes
    step = diagnosis.next_step
    if step is not None and step.text and says_next:
        blocks.append(Paragraph(f"Next: {step.text}", step.command or ""))
    return Section("verdict", "Verdict", blocks)


def cause_line(diagnosis: Diagnosis, *, is_settled: bool = False) -> str:
    """ "Two OpenMP runtimes (openmp-duplicate-runtime), 97 %"."""
    causes = cause_views(diagnosis)
    if not causes:
        return ""
    first = causes[0]
    share = "" if is_settled else f", {percent(first.probability)}"
    title = first.title if first.title != first.id else ""
    return f"{title} ({first.id}){share}" if title else f"{first.id}{share}"


def first_fix(diagnosis: Diagnosis) -> RemedyView | None:
    """The remedy that comes first, which stands at the top of the page."""
    causes = cause_views(diagnosis)
    return next(iter(causes[0].remedies), None) if causes else None


def cause_views(diagnosis: Diagnosis, *, is_settled: bool = False) -> list[CauseView]:
    found = []
    for position, cause in enumerate(diagnosis.causes[:_MOST_CAUSES]):
        if position and cause.probability < _LEAST_PROBABILITY:
            break
        remedies = [
            RemedyView(each.title, each.safety, list(each.change)) for each in cause.remedies
        ]
        found.append(
            CauseView(
                id=cause.id,
                title=cause.title or cause.id,
                probability=cause.probability,
                evidence_for=_cited(cause.speaks_for),
                evidence_against=_cited(cause.speaks_against),
                remedies=remedies if position == 0 else [],
                is_leading=position == 0,
                is_settled=is_settled,
            )
        )
    return found


def _cited(observations: Sequence[Observation]) -> list[Cited]:
    return [Cited(each.text, each.source) for each in observations[:_MOST_EVIDENCE] if each.text]


def where_and_what(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The user's own line, and what leaked: the same words as in the terminal."""
    try:
        told = what_was_happening(diagnosis.facts, diagnosis.outcome)
    except (TypeError, ValueError, AttributeError, LookupError):
        return []  # an answer of another rerail, with facts of other types
    return [(label, line) for label, line in told if label in _TOLD]


def fact_list(diagnosis: Diagnosis) -> Facts:
    facts = diagnosis.facts
    items = [
        (words, fact_in_words(name, facts[name]))
        for name, words in _FACT_WORDS.items()
        if facts.get(name) is not None
    ]
    return Facts(items)


def fact_in_words(name: str, value: object) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and name.endswith(("_bytes", "_bytes_per_step")):
        return bytes_in_words(float(str(value)))
    if is_number and name.endswith("_seconds"):
        return seconds_in_words(float(str(value)))
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


def cited_lines(diagnosis: Diagnosis) -> list[int]:
    """Lines of the output that the evidence points at."""
    found = set()
    for cause in diagnosis.causes[:_MOST_CAUSES]:
        for cited in _cited(cause.speaks_for) + _cited(cause.speaks_against):
            kind, _, place = cited.source.rpartition(":")
            if kind.endswith("output") and place.isascii() and place.isdigit():
                found.add(int(place))
    return sorted(found)


def as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
