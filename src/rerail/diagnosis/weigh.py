"""What speaks for and against each cause, and how much.

In: evidence and the catalogue. Out: one `Case` per cause that has anything to say for itself.
Each item is a log-likelihood ratio in nats, taken from the catalogue. Two adjustments keep the sum
honest: items of one group say the same thing, so only the heaviest counts; and the items of a cause
come from one log and are correlated, so the second counts half, the third a quarter, and so on.
What the program survived counts nothing, and a rank that was not the first to fail counts half.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rerail.catalogue import Catalogue, Cause
from rerail.diagnosis.calibration import Standing
from rerail.diagnosis.conditions import meets
from rerail.records import Evidence, Observation

DAMPING = 0.5
LATER_RANK = 0.5
ENOUGH = 1.4  # a cause with less evidence of its own is not named
BY_ITSELF = 2.0  # an item that is lighter is no more than a hint
GENERAL = 2.5  # a symptom that is lighter is told by words that any library may use
DEFINITE = 5.5  # a message of this weight is known to mean one thing
TELLING = 4.0  # a message that is lighter is used of what does no harm, too
ONLY_LOGGED = 0.4  # of such a message, where a logger calls it a warning
ONLY_WARNED = 0.3  # of Python's warning that is lighter, or where the end is known to be another


@dataclass(frozen=True)
class Item:
    name: str
    group: str
    weight: float
    observation: Observation
    is_beside: bool = False  # what ended the run is on record, and this line is not it


@dataclass
class Case:
    cause: Cause
    items: list[Item] = field(default_factory=list)

    @property
    def speaks_for(self) -> list[Item]:
        said = {i.observation.source for i in self.items if i.observation.kind == "line"}
        return _heaviest(
            [item for item in self.items if item.weight > 0 and not _is_read_twice(item, said)]
        )

    @property
    def speaks_against(self) -> list[Item]:
        return _heaviest([item for item in self.items if item.weight < 0])

    @property
    def standing(self) -> Standing:
        """What kind of evidence leads: how much of it is not yet what it is."""
        items = self.speaks_for
        if not items:
            return "one-message"
        if all(item.is_beside or item.weight < BY_ITSELF for item in items):
            return "beside"
        is_message = items[0].observation.kind == "line" and items[0].weight < DEFINITE
        return "one-message" if is_message and len(items) == 1 else "definite"

    @property
    def own(self) -> float:
        """The cause's own evidence, damped."""
        total = 0.0
        for items in (self.speaks_for, self.speaks_against):
            factor = 1.0
            for item in items:
                total += factor * item.weight
                factor *= DAMPING
        return total


def _is_read_twice(item: Item, said: set[str]) -> bool:
    """The general sense of words that a signature of the same cause knows says nothing more."""
    is_general = item.observation.kind == "symptom" and item.weight < GENERAL
    return is_general and item.observation.source in said


def _heaviest(items: list[Item]) -> list[Item]:
    """One item per group, the heaviest first; of equals the one seen first."""
    best: dict[str, Item] = {}
    for item in items:
        known = best.get(item.group)
        if known is None or abs(item.weight) > abs(known.weight):
            best[item.group] = item
    return sorted(best.values(), key=lambda item: -abs(item.weight))


def weigh(evidence: Evidence, catalogue: Catalogue) -> dict[str, Case]:
    """A case for every cause with at least one item."""
    first = next((o for o in evidence.observations if o.kind == "failed-first"), None)
    by_kind: dict[str, list[Observation]] = {}
    unimportant = _pids_done_without(evidence)
    has_failed = evidence.outcome.kind != "ok"
    ended_well = not has_failed and not _trained_nothing(evidence)
    # A line at level INFO or below is never more than context to an exception.
    is_raised = _is_ended_by_an_exception(evidence)
    warned_at = {o.source for o in evidence.observations if _is_warning(o)}
    for observation in evidence.observations:
        is_of_those = observation.data.get("pid") in unimportant
        is_tidying = observation.kind == "death" and observation.data.get("is_tidying")
        # Words that sound like a failure, of a run that is known to have ended well.
        is_idle = ended_well and (
            observation.source in warned_at or _only_sounds_like_a_failure(observation)
        )
        is_idle = is_idle or (is_raised and bool(observation.data.get("is_context")))
        if not (is_of_those or is_tidying or is_idle or _is_our_own_doing(observation, evidence)):
            by_kind.setdefault(observation.kind, []).append(observation)
    cases: dict[str, Case] = {}
    warned = ONLY_WARNED if _is_known_to_have_ended_it(by_kind) else 1.0
    words = _last_words(by_kind, is_end_known=evidence.outcome.kind != "unknown")
    for cause in catalogue:
        case = Case(cause)
        _signatures(case, by_kind.get("line", []), first, warned, words)
        _signs(case, by_kind, first)
        if _lacks_its_device(case, evidence):
            continue
        if case.items and (has_failed or _tells_of_an_event(case)):
            cases[cause.id] = case
    if evidence.outcome.kind == "hang" or _is_a_hang(cases):
        return _without_who_ended_the_hang(cases, by_kind)
    return cases


def _is_ended_by_an_exception(evidence: Evidence) -> bool:
    """Whether nothing caught an exception that is no echo of another process's end."""
    return evidence.outcome.kind in ("exit", "unknown") and any(
        o.kind in ("exception", "traceback")
        and o.data.get("type")
        and not any(o.data.get(name) for name in ("is_echo", "is_lone", "thread", "is_context"))
        and not _was_survived(o)
        for o in evidence.observations
    )


def _is_a_hang(cases: dict[str, Case]) -> bool:
    return any(
        item.observation.kind == "stall" and case.own >= ENOUGH
        for case in cases.values()
        for item in case.speaks_for
    )


def _is_of_whom_it_waited_for(case: Case, by_kind: dict[str, list[Observation]]) -> bool:
    """It tells of the end of a worker, and the run hung because that worker was gone."""
    lost = {(o.data.get("lost") or {}).get("pid") for o in by_kind.get("stall", [])} - {None}
    return any(item.observation.data.get("pid") in lost for item in case.speaks_for)


def _without_who_ended_the_hang(
    cases: dict[str, Case], by_kind: dict[str, list[Observation]]
) -> dict[str, Case]:
    """A run that hung is what it hung in; Ctrl-C, or rerail itself, is how it ended."""
    return {
        id: case
        for id, case in cases.items()
        if not case.cause.policy.is_from_outside or _is_of_whom_it_waited_for(case, by_kind)
    }


# How things stood. Of a run that ended well they explain nothing: two OpenMP runtimes may be loaded
# and only one be used.
_CIRCUMSTANCES = {
    "openmp-runtimes",
    "blas-libraries",
    "cuda-libraries",
    "memory-growth",
    "leak",
    "memory-near-limit",
    "fds-near-limit",
    "threads-near-limit",
    "shm-near-limit",
    "disk-near-limit",
    "address-space-limit",
    "stall",
    "progress",
    "history",
    "loader",
    "accumulation",
    "file-loaded",
    "missing",
}


def _only_sounds_like_a_failure(observation: Observation) -> bool:
    """Last lines, or the error of some program that it called."""
    is_an_exit = observation.kind == "exit-line" and observation.data.get("exit_code") == 1
    return is_an_exit or bool(observation.data.get("is_last_words"))


def _is_warning(observation: Observation) -> bool:
    """A warning, or a line that names an exception which no traceback shows."""
    data = observation.data
    return any(data.get(name) for name in ("is_warning", "is_logged_as_warning", "is_lone"))


def _lacks_its_device(case: Case, evidence: Evidence) -> bool:
    """Whether it is of a GPU, the run used none, and no message is known to mean just this."""
    uses = evidence.facts.get("uses")
    has_gpu = uses is None or "cuda" in uses
    return (
        case.cause.policy.needs_gpu and not has_gpu and all(i.weight < TELLING for i in case.items)
    )


def _trained_nothing(evidence: Evidence) -> bool:
    """Whether a program that loaded torch has done no step and printed none."""
    facts = evidence.facts
    return "torch" in (facts.get("uses") or ()) and not (facts.get("last_step") or "epoch" in facts)


def _tells_of_an_event(case: Case) -> bool:
    return any(item.observation.kind not in _CIRCUMSTANCES for item in case.speaks_for)


def _pids_done_without(evidence: Evidence) -> set[int]:
    """Helpers that died while the run went on and ended well, and the output says nothing of it.

    If it does say that one was killed, what is recorded of that kill has to be heard too.
    """
    if evidence.outcome.kind != "ok" or _tells_of_a_kill(evidence):
        return set()
    return {
        o.data["pid"]
        for o in evidence.observations
        if o.kind == "death"
        and o.data.get("was_swallowed")
        and not o.data.get("was_training")
        and o.data.get("role") not in ("main", "rank")
    }


def _tells_of_a_kill(evidence: Evidence) -> bool:
    return any(
        o.kind == "exit-line" and o.data.get("signal") and not _was_survived(o)
        for o in evidence.observations
    )


def _is_our_own_doing(observation: Observation, evidence: Evidence) -> bool:
    """Of a run that was ended because it hung, the signals are rerail's and say nothing."""
    return (
        evidence.outcome.kind == "hang"
        and observation.kind in ("outside-signal", "exit-line")
        and observation.data.get("signal") in ("SIGTERM", "SIGKILL", "SIGINT", "SIGCONT")
    )


def _is_known_to_have_ended_it(by_kind: dict[str, list[Observation]]) -> bool:
    """A crash on record, or an exception that nothing caught: no warning explains more."""
    raised = by_kind.get("exception", []) + by_kind.get("traceback", [])
    return "crash" in by_kind or any(
        not _was_survived(o) and not o.data.get("is_lone") and o.data.get("type") for o in raised
    )


@dataclass(frozen=True)
class _LastWords:
    """What uncaught exceptions say, and where; or where the text still told of progress."""

    texts: tuple[str, ...]
    sources: frozenset[str]
    last_progress: str

    def have(self, line: Observation) -> bool:
        """Where nothing was raised, every line after the last progress may be what ended it."""
        if not self.sources:
            return not _is_at_or_before(line.source, self.last_progress)
        return line.source in self.sources or any(
            line.text[:_COMPARED] in text or text in line.text for text in self.texts
        )


_COMPARED = 120  # characters of a line


def _last_words(by_kind: dict[str, list[Observation]], is_end_known: bool) -> _LastWords:
    raised = [
        o
        for o in by_kind.get("exception", []) + by_kind.get("traceback", [])
        if o.data.get("type") and not _was_survived(o) and not o.data.get("is_echo")
    ]
    progress = [] if is_end_known else by_kind.get("progress", [])
    return _LastWords(
        tuple(o.text for o in raised if o.text),
        frozenset(o.source for o in raised),
        progress[-1].source if progress else "",
    )


def _is_at_or_before(source: str, other: str) -> bool:
    """Of places in one text, such as output:12 and output:340."""
    text, _, line = source.rpartition(":")
    other_text, _, other_line = other.rpartition(":")
    are_lines = line.isdecimal() and other_line.isdecimal()
    return are_lines and text == other_text and int(line) <= int(other_line)


def _signatures(
    case: Case,
    lines: list[Observation],
    first: Observation | None,
    warned: float,
    words: _LastWords,
) -> None:
    known = {signature.name: signature for signature in case.cause.signatures}
    for line in lines:
        if line.data.get("cause") != case.cause.id:
            continue
        signature = known.get(line.data["signature"])
        if signature is None or (_was_survived(line) and not signature.even_if_resumed):
            continue
        weight = signature.weight * _share(line, first)
        if line.data.get("is_warning"):
            weight *= warned if signature.weight >= TELLING else ONLY_WARNED
        if BY_ITSELF <= signature.weight < TELLING and line.data.get("is_logged_as_warning"):
            weight *= ONLY_LOGGED
        group = signature.group or signature.name
        case.items.append(Item(signature.name, group, weight, line, not words.have(line)))


def _signs(case: Case, by_kind: dict[str, list[Observation]], first: Observation | None) -> None:
    for sign in case.cause.signs:
        for observation in by_kind.get(sign.observation, []):
            if _was_survived(observation) and not sign.even_if_resumed:
                continue
            if meets(observation.data, sign.when):
                weight = sign.weight * _share(observation, first)
                case.items.append(Item(sign.name, sign.group or sign.name, weight, observation))


def _was_survived(observation: Observation) -> bool:
    return bool(observation.data.get("resumed") or observation.data.get("was_handled"))


def _share(observation: Observation, first: Observation | None) -> float:
    if first is None:
        return 1.0
    stream = observation.data.get("stream")
    return LATER_RANK if stream and stream in first.data.get("others", []) else 1.0
