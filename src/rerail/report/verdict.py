"""The verdict: how it ended, why, and what to type next.

In: the contract's diagnosis document (`explain --json`), which may come from an older or a newer
rerail. Out: blocks. What the document lacks is left out; nothing in it is trusted to be of the
right type.
"""

from __future__ import annotations

from typing import Any

from rerail.report.document import Block, CauseView, Cited, Facts, Paragraph, RemedyView, Section
from rerail.report.terminal_facts import STOPPED_BY_GATE, what_was_happening
from rerail.wording import bytes_in_words, percent, seconds_in_words

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
    diagnosis: dict[str, Any], *, is_settled: bool = False, says_next: bool = True
) -> Section:
    """`is_settled`: an experiment has said more than these probabilities."""
    blocks: list[Block] = []
    causes = cause_views(diagnosis, is_settled=is_settled)
    if not causes:
        is_ok = as_text(as_object(diagnosis.get("outcome")).get("kind")) == "ok"
        said = "Nothing failed." if is_ok else "No cause in the catalogue fits what was observed."
        is_gate = "stopped_by_gate" in facts_of(diagnosis)
        blocks.append(Paragraph(STOPPED_BY_GATE if is_gate else said))
    blocks += causes
    step = as_object(diagnosis.get("next"))
    if as_text(step.get("text")) and says_next:
        blocks.append(Paragraph(f"Next: {as_text(step.get('text'))}", as_text(step.get("command"))))
    return Section("verdict", "Verdict", blocks)


def cause_line(diagnosis: dict[str, Any], *, is_settled: bool = False) -> str:
    """ "Two OpenMP runtimes (openmp-duplicate-runtime), 97 %"."""
    causes = cause_views(diagnosis)
    if not causes:
        return ""
    first = causes[0]
    share = "" if is_settled else f", {percent(first.probability)}"
    title = first.title if first.title != first.id else ""
    return f"{title} ({first.id}){share}" if title else f"{first.id}{share}"


def first_fix(diagnosis: dict[str, Any]) -> RemedyView | None:
    """The remedy that comes first, which stands at the top of the page."""
    causes = cause_views(diagnosis)
    return next(iter(causes[0].remedies), None) if causes else None


def cause_views(diagnosis: dict[str, Any], *, is_settled: bool = False) -> list[CauseView]:
    found = []
    for position, cause in enumerate(as_list(diagnosis.get("causes"))[:_MOST_CAUSES]):
        cause = as_object(cause)
        probability = cause.get("probability")
        share = float(probability) if isinstance(probability, (int, float)) else 0.0
        if position and share < _LEAST_PROBABILITY:
            break
        found.append(
            CauseView(
                id=as_text(cause.get("id")) or "unknown",
                title=as_text(cause.get("title")) or as_text(cause.get("id")),
                probability=share,
                evidence_for=_cited(cause.get("for")),
                evidence_against=_cited(cause.get("against")),
                remedies=_remedies(cause.get("remedies")) if position == 0 else [],
                is_leading=position == 0,
                is_settled=is_settled,
            )
        )
    return found


def _cited(values: object) -> list[Cited]:
    found = []
    for value in as_list(values)[:_MOST_EVIDENCE]:
        value = as_object(value)
        if as_text(value.get("text")):
            found.append(Cited(as_text(value.get("text")), as_text(value.get("source"))))
    return found


def _remedies(values: object) -> list[RemedyView]:
    found = []
    for value in as_list(values):
        value = as_object(value)
        change = [str(item) for item in as_list(value.get("change"))]
        title = as_text(value.get("title")) or as_text(value.get("id"))
        if title:
            found.append(RemedyView(title, as_text(value.get("safety")) or "unknown", change))
    return found


def facts_of(diagnosis: dict[str, Any]) -> dict[str, Any]:
    return as_object(diagnosis.get("facts"))


def where_and_what(diagnosis: dict[str, Any]) -> list[tuple[str, str]]:
    """The user's own line, and what leaked: the same words as in the terminal."""
    facts, outcome = facts_of(diagnosis), as_object(diagnosis.get("outcome"))
    try:
        told = what_was_happening(facts, outcome)
    except (TypeError, ValueError, AttributeError, LookupError):
        return []  # an answer of another rerail, with facts of other types
    return [(label, line) for label, line in told if label in _TOLD]


def fact_list(diagnosis: dict[str, Any]) -> Facts:
    facts = facts_of(diagnosis)
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


def cited_lines(diagnosis: dict[str, Any]) -> list[int]:
    """Lines of the output that the evidence points at."""
    found = set()
    for cause in as_list(diagnosis.get("causes"))[:_MOST_CAUSES]:
        for cited in _cited(as_object(cause).get("for")) + _cited(as_object(cause).get("against")):
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
