"""The one sentence that stands first: the fact, with who, what, where, when and how much.

In: a diagnosis. Out: one sentence. The leading cause's file has the templates; the first one whose
facts are all known is filled. Where the cause is in doubt, the sentence says what was observed and
leaves the cause to the lines below: an exception that was recorded is a fact, why it was raised may
not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.catalogue import fill
from rerail.diagnosis.words import words_of

if TYPE_CHECKING:
    from rerail.diagnosis.result import Diagnosis

LIKELY = 0.5
# What can be said without knowing the cause, the most telling first.
_OBSERVED = ("{rank_story}", "{hang}", "{crash}", "{exception}{at}")
_LAST = ("{exit_caller} called {exit_call}[ in {where}][ ({step})]", "{ending}{at}")


def headline(diagnosis: Diagnosis) -> str:
    leading = diagnosis.leading
    ending = diagnosis.outcome.summary.strip().rstrip(".") or "it is not known how it ended"
    was_stopped = "stopped_by_gate" in diagnosis.facts
    if leading is None and (was_stopped or diagnosis.outcome.kind in ("ok", "unknown")):
        return _sentence(ending)
    words = {**words_of(diagnosis), "ending": ending}
    if leading is not None and leading.probability >= LIKELY:
        said = _first_filled(leading.cause.headline, words) or leading.title
        if "waited" in words and words["hang"] not in said:
            said += f"; {words['waited']}"
        return _sentence(said)
    observed = _first_filled((*_OBSERVED, *_LAST), words) or ending
    if leading is not None and not leading.cause.is_residual:
        observed += f"; it may be this: {leading.title[:1].lower()}{leading.title[1:]}"
    return _sentence(observed)


def _first_filled(templates: tuple[str, ...], words: dict[str, str]) -> str | None:
    return next((text for each in templates if (text := fill(each, words))), None)


def _sentence(text: str) -> str:
    """With a capital and a full stop; "torch.OutOfMemoryError" begins as it is written."""
    text = text.strip()
    first = text.partition(" ")[0]
    if first.isalpha() and first.islower():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", "…")) else text + "."
