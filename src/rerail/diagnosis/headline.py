"""The one sentence that stands first: how it ended, where it was, and why.

In: a diagnosis. Out: one sentence, from what the diagnosis holds alone. A cause that is less likely
than all others together is said to be one of several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rerail.wording import sentence

if TYPE_CHECKING:
    from rerail.diagnosis.result import Diagnosis


def headline(diagnosis: Diagnosis) -> str:
    ending = diagnosis.outcome.summary.strip().rstrip(".") or "it is not known how it ended"
    place = _place(diagnosis.facts) if diagnosis.outcome.kind != "ok" else ""
    leading = diagnosis.leading
    if leading is None:
        return sentence(ending + place)
    if leading.probability < 0.5:
        return sentence(f"{ending}{place}; one possible cause: {leading.title}")
    return sentence(f"{leading.title}: {_going_on(ending)}{place}")


def _going_on(text: str) -> str:
    """ "It ended" goes on as "it ended" after a colon; SIGABRT stays as it is."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _place(facts: dict[str, Any]) -> str:
    place = f", at step {facts['last_step']}" if facts.get("last_step") is not None else ""
    if facts.get("failed_first"):
        place += f", {facts['failed_first']} first"
    return place
