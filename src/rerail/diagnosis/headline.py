"""The one sentence that stands first: the fact, with who, what, where, when and how much.

In: a diagnosis. Out: one sentence. The leading cause's file has the templates; the first one whose
facts are all known is filled; the one that needs none names the cause alone, so the line of the log
that tells it stands behind it. Where the cause is in doubt, the sentence says what was observed and
leaves the cause to the lines below: an exception that was recorded is a fact, why it was raised may
not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rerail.catalogue import fill, gaps
from rerail.diagnosis.short_message import without_logger
from rerail.diagnosis.words import words_of
from rerail.platform.patterns import linear
from rerail.wording import cut, seconds_in_words

if TYPE_CHECKING:
    from rerail.diagnosis.result import Candidate, Diagnosis
    from rerail.records import Observation

LIKELY = 0.5
# What can be said without knowing the cause, the most telling first.
_OBSERVED = ("{rank_story}", "{hang}", "{crash}", "{exception}{at}", "{said_last}{at}")
_LAST = ("{exit_caller} called {exit_call}[ in {where}][ ({step})]", "{ending}{at}")

# The line of a log that is quoted: which kinds are lines, and what is no sentence.
_LINES = (
    "line",
    "symptom",
    "kernel-line",
    "exit-line",
    "gpu-memory",
    "memory-growth",
    "last-words",
)
_OF_TEXT = linear(r"^(?:output|kernel|\S+\.\w+):\d+$")
_NO_SENTENCE = linear(
    r"^(?:the traceback ends in |frame #|#\d|File \"|\^C|Traceback )|\d%\||[█▏▎▍▌▋▊▉]"
)
_TELLING_CHARS = 15
_OF_A_CHILD = ("CalledProcessError",)  # what a parent raises does not say why its child failed
_PARTS = (". ", ": ", "; ", ") ")  # what ends a part of a line
_MOST_OF_A_LINE = 120


def headline(diagnosis: Diagnosis) -> str:
    leading = diagnosis.leading
    ending = diagnosis.outcome.summary.strip().rstrip(".") or "it is not known how it ended"
    was_stopped = "stopped_by_gate" in diagnosis.facts
    if leading is None and (was_stopped or diagnosis.outcome.kind in ("ok", "unknown")):
        return _sentence(ending)
    words = {**words_of(diagnosis), "ending": ending}
    if leading is not None and leading.probability >= LIKELY:
        said = _told(leading, words)
        if "waited" in words and words["hang"] not in said:
            said += f"; {words['waited']}"
        return _sentence(said + _more(diagnosis, leading, words, said))
    observed = _first_filled((*_OBSERVED, *_LAST), words) or ending
    if leading is not None:
        observed += _more(diagnosis, leading, words, observed)
    if leading is not None and not leading.cause.is_residual:
        observed += f"; it may be this: {leading.title[:1].lower()}{leading.title[1:]}"
    return _sentence(observed)


def _more(diagnosis: Diagnosis, leading: Candidate, words: dict[str, str], said: str) -> str:
    """One thing more: what led to the exception or came of it, or what was ended from outside."""
    facts, hang = diagnosis.facts, diagnosis.facts.get("hang") or {}
    if words.get("exception", "\0") in said:
        if "file_there" in words:
            return f"; {words['file_there']}"
        if words.get("afterwards", "then").partition(" ")[2] not in ("", words["exception"]):
            return f"; {words['afterwards']}"
        if diagnosis.outcome.kind == "ok":
            return "; the command went on, and ended with exit code 0"
    if str(facts.get("exception")) in _OF_A_CHILD and (line := _its_line(leading)):
        return "" if line[2:] in said or said[:40] in line else f"; it had said{line}"
    if words.get("hang", "\0") in said:
        raised = diagnosis.outcome.kind == "exit" and words.get("exception")
        return f"; then {raised}" if raised else ""
    if not leading.cause.policy.is_from_outside:
        return ""
    after = f"; {words['afterwards']}" if "exception_after" in facts else ""
    return _before_it_was_ended(facts, hang, words) or after


def _before_it_was_ended(facts: dict[str, Any], hang: dict[str, Any], words: dict[str, str]) -> str:
    if hang.get("kind") == "busy" and "where" in words:
        silent = seconds_in_words(hang["seconds"])
        return f"; it had run for {silent} without a step or output, in {words['where']}"
    quiet = facts.get("seconds_without_step") if "hang" not in words else None
    return f"; the last step was {seconds_in_words(quiet)} before" if quiet else ""


def _told(leading: Candidate, words: dict[str, str]) -> str:
    for template in leading.cause.headline:
        if said := fill(template, words):
            return said if gaps(template) - {"at"} else f"{said}{_its_line(leading)}"
    return leading.title + _its_line(leading)


def _its_line(leading: Candidate) -> str:
    """The line of the output that speaks most for it; a word such as "Killed" says no more."""
    for observation in leading.speaks_for:
        if observation.kind not in _LINES or not _OF_TEXT.search(observation.source):
            continue
        text = " ".join(observation.text[: _MOST_OF_A_LINE * 8].split())
        text = without_logger(_from_its_words(leading, observation, text))
        if len(text) >= _TELLING_CHARS and not _NO_SENTENCE.search(text):
            return f": {cut(text, _MOST_OF_A_LINE).rstrip('.: ')}"
    return ""


def _from_its_words(leading: Candidate, observation: Observation, text: str) -> str:
    """Of a long line, from the part on that has the words which tell it."""
    name = observation.data.get("signature")
    known = (one for one in leading.cause.signatures if one.name == name)
    signature = next(known, None) if len(text) > _MOST_OF_A_LINE else None
    found = linear(signature.pattern).search(text) if signature else None
    if found is None or found.end() <= _MOST_OF_A_LINE:
        return text
    begins = max(text.rfind(mark, 0, found.start()) + len(mark) for mark in _PARTS)
    return text[begins:] if begins > 1 else text


def _first_filled(templates: tuple[str, ...], words: dict[str, str]) -> str | None:
    return next((text for each in templates if (text := fill(each, words))), None)


def _sentence(text: str) -> str:
    """With a capital and a full stop; "torch.OutOfMemoryError" begins as it is written."""
    text = text.strip()
    first = text.partition(" ")[0]
    if first.isalpha() and first.islower():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", "…")) else text + "."
