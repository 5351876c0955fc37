"""What speaks against one cause, and what of it was looked for and not seen.

In: a diagnosis with its observations, and the id of the cause that somebody is sure of. Out:
`WhyNot`. Promises: no scoring of its own. The weights are the catalogue's, the probability is that
of `rank`, and what was observed comes from `weigh`, as in the diagnosis itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rerail.catalogue import Catalogue, Cause, Sign, Signature, load_catalogue, spaced
from rerail.diagnosis.rank import rank
from rerail.diagnosis.result import Diagnosis
from rerail.diagnosis.weigh import ENOUGH, Case, weigh
from rerail.errors import UsageError
from rerail.platform.patterns import linear
from rerail.records import Evidence
from rerail.wording import cut, listed, percent

# The second table of docs/evidence.md: what a log alone can show.
SEEN_IN_TEXT = {
    *("line", "traceback", "faulthandler", "exit-line", "kernel-line", "progress"),
    *("nonfinite-loss", "failed-first", "native-stack", "gpu-memory", "memory-growth"),
    *("collective-disagreement", "healthy-end", "last-words"),
}
MOST_EXAMPLE = 90


@dataclass(frozen=True)
class Against:
    text: str
    source: str = ""  # where it can be seen; empty for what follows from the rest


@dataclass(frozen=True)
class Missing:
    """Evidence that would have spoken for the cause; the weight is the catalogue's, in nats."""

    text: str
    weight: float
    needs_recording: bool = False  # no log shows it, only a run under `rerail run`


@dataclass(frozen=True)
class WhyNot:
    id: str
    title: str
    probability: float
    against: tuple[Against, ...] = ()
    missing: tuple[Missing, ...] = ()  # the heaviest first

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "probability": round(self.probability, 3),
            "against": [
                {"text": item.text, **({"source": item.source} if item.source else {})}
                for item in self.against
            ],
            "missing": [
                {
                    "text": item.text,
                    "weight": item.weight,
                    "needs_recording": item.needs_recording,
                }
                for item in self.missing
            ],
        }


def why_not(diagnosis: Diagnosis, cause_id: str, catalogue: Catalogue | None = None) -> WhyNot:
    catalogue = catalogue or load_catalogue()
    if cause_id not in catalogue:
        raise unknown_cause(cause_id)
    cause = catalogue[cause_id]
    cases = weigh(Evidence(diagnosis.outcome, list(diagnosis.observations)), catalogue)
    ranked = rank(cases)
    case = cases.get(cause_id) or Case(cause)
    probability = next((p for other, p in ranked if other.cause.id == cause_id), 0.0)
    probability = round(probability, 3)  # as in the answer itself
    against = tuple(_against(diagnosis, case, ranked))
    missing = tuple(_missing(case, is_recorded=diagnosis.run is not None))
    return WhyNot(cause_id, cause.title, probability, against, missing)


def unknown_cause(cause_id: str) -> UsageError:
    """With the closest ids: those that have all its words, else those of nearly its letters."""
    import difflib

    ids = list(load_catalogue().causes)
    words = set(cause_id.lower().split("-"))
    close = [each for each in ids if words <= set(each.split("-"))][:4]
    close = close or difflib.get_close_matches(cause_id.lower(), ids, n=3)
    hint = f" Did you mean {listed(close, 'or')}?" if close else ""
    return UsageError(
        f"there is no cause {cause_id!r}.{hint}", "Type `rerail causes` for the list."
    )


def _against(
    diagnosis: Diagnosis, case: Case, ranked: list[tuple[Case, float]]
) -> Iterator[Against]:
    for item in case.speaks_against:
        yield Against(f"{_plain(item.name)}: {item.observation.text}", item.observation.source)
    yield from _survived(diagnosis, case)
    leader = ranked[0] if ranked else None
    if leader is not None and leader[0].cause.id != case.cause.id:
        yield from _outranked(case, *leader)
    if diagnosis.outcome.kind == "ok":
        yield Against(f"It ended well: {diagnosis.outcome.summary}")
    if case.speaks_for and 0 < case.own < ENOUGH:
        hint = case.speaks_for[0].observation
        yield Against(f"What speaks for it is only a hint: {hint.text}", hint.source)
    if case.cause.is_residual and leader is not None and not leader[0].cause.is_residual:
        yield Against("It is named only when nothing more specific explains the ending.")


def _survived(diagnosis: Diagnosis, case: Case) -> Iterator[Against]:
    """Its own lines that do not count, because the program went on afterwards."""
    counted = {item.observation.source for item in case.items}
    for seen in diagnosis.observations:
        is_its_own = seen.kind == "line" and seen.data.get("cause") == case.cause.id
        if is_its_own and seen.data.get("resumed") and seen.source not in counted:
            yield Against(f"The program went on after this: {seen.text}", seen.source)
            return


def _outranked(case: Case, leader: Case, probability: float) -> Iterator[Against]:
    reason = leader.speaks_for[0].observation
    yield Against(
        f"{leader.cause.id} explains it better ({percent(probability)}): {reason.text}",
        reason.source,
    )
    if case.cause.id in leader.cause.outranks and case.speaks_for:
        yield Against(
            f"{leader.cause.id} leads to what speaks for {case.cause.id}, so that counts for both."
        )


def _missing(case: Case, *, is_recorded: bool) -> Iterator[Missing]:
    """One for each group that was not seen: its members say the same thing."""
    seen = {item.group for item in case.items}
    best: dict[str, Signature | Sign] = {}
    known_evidence: list[Signature | Sign] = [*case.cause.signatures, *case.cause.signs]
    for each in known_evidence:
        group = each.group or each.name
        needs_recording = not is_recorded and not _is_in_text(each)
        key = f"{group} of a record" if needs_recording else group
        known = best.get(key)
        is_better = known is None or each.weight > known.weight
        if each.weight > 0 and group not in seen and is_better:
            best[key] = each
    said = set()
    for each in sorted(best.values(), key=lambda each: -each.weight):
        text = _in_words(each, case.cause)
        if text not in said:  # one example may match two signatures
            yield Missing(text, each.weight, not is_recorded and not _is_in_text(each))
        said.add(text)


def _is_in_text(each: Signature | Sign) -> bool:
    return isinstance(each, Signature) or each.observation in SEEN_IN_TEXT


def _in_words(each: Signature | Sign, cause: Cause) -> str:
    if isinstance(each, Sign):
        fields = ", ".join(
            f"{field} {listed(list(map(str, value)), 'or') if isinstance(value, list) else value}"
            for field, value in each.when.items()
            if not str(value).startswith(("~", "!~"))  # a pattern says nothing to a person
        )
        return f"{_plain(each.name)} ({each.observation}{f': {fields}' if fields else ''})"
    example = _example(each, cause)
    return f'a line such as "{example}"' if example else f"{_plain(each.name)} (a line of the log)"


def _plain(name: str) -> str:
    return name.replace("-", " ")


def _example(signature: Signature, cause: Cause) -> str:
    """A line that the signature matches, from the catalogue's own examples."""
    pattern = linear(spaced(signature.pattern), re.MULTILINE)
    for text in cause.matches:
        if found := pattern.search(text):
            begin = text.rfind("\n", 0, found.start() + 1) + 1
            begin = begin if found.end() - begin <= MOST_EXAMPLE else found.start()
            return cut(" ".join(text[begin:].split()), MOST_EXAMPLE)
    return ""
