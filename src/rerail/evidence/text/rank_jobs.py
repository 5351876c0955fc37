"""The evidence of a job that left many logs; only those that matter are read whole.

In: the logs, and a reader of one log. Out: `Evidence` of the few files that matter (that of the
rank that failed first, what launchers and kernels say of it, one of those that waited), with
`failed-first` and the sentence that tells it; None where the files are not the logs of ranks, or
nothing is settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rerail.evidence.text.observing import SHOWN, TextEvidence
from rerail.evidence.text.rank_roster import Roster
from rerail.evidence.text.rank_survey import OpenableLog, survey
from rerail.evidence.text.rank_verdict import Verdict, judge
from rerail.platform.deadline import Deadline
from rerail.platform.signal_names import OF_LINUX as SIGNAL_NAMES
from rerail.records import Evidence, Observation, Outcome
from rerail.wording import seconds_in_words, sentence

# A rank that only kept others waiting did nothing that its own log would show as a failure.
_KEPT_WAITING = (
    "never-entered",
    "silent",
    "left-early",
    "mismatch",
    "host-lost",
    "gone",
    "missing",
)

# What only several ranks together show; the rest one log, or a few, show by themselves.
SEEN_TOGETHER = frozenset({"never-entered", "mismatch", "left-early", "gone"})

# Position of a log and who wrote it -> what it shows.
Reader = Callable[[int, str], TextEvidence]


def collect_job(
    logs: Sequence[OpenableLog],
    deadline: Deadline,
    read: Reader,
    accepts: frozenset[str] | None = None,
) -> Evidence | None:
    """`accepts`: how the first has to have failed for the answer to count; any if not given."""
    records = survey(logs, deadline)
    roster = Roster(records)
    if len(roster.ranks) < 2 or len(roster.unknown) > len(roster.ranks):
        return None
    verdict = judge(roster)
    if verdict is None or (accepts is not None and verdict.how not in accepts):
        return None
    return _evidence(verdict, roster, read)


def _evidence(verdict: Verdict, roster: Roster, read: Reader) -> Evidence:
    texts: list[TextEvidence] = []
    if verdict.record is not None:
        texts.append(read(verdict.record.at, _name(verdict)))
    kept_waiting = verdict.how in _KEPT_WAITING
    witnesses = [one for one in verdict.witnesses if one is not verdict.record]
    waited = verdict.waited
    if kept_waiting and waited is not None and waited not in witnesses:
        witnesses.append(waited)
    seen = {verdict.record.at} if verdict.record is not None else set()
    for record in witnesses:
        if record.at not in seen:
            seen.add(record.at)
            name = f"rank {record.rank}" if record.rank is not None else ""
            texts.append(_of_witness(read(record.at, name)))
    story = story_of(verdict, roster)
    observations = [
        o
        for text in texts
        for o in text.observations
        if o.kind not in ("failed-first", "healthy-end" if kept_waiting else "")
    ]
    facts: dict[str, Any] = {}
    for text in texts:
        facts.update({key: value for key, value in text.facts.items() if key not in facts})
    others = [f"rank {one.rank}" for one in witnesses if one.rank is not None]
    data = {
        "who": verdict.who,
        "how": verdict.how,
        "others": others,
        "other_count": len(roster.ranks) - (verdict.record is not None),
        "by": "structure",
        "host": verdict.host,
        "signal": SIGNAL_NAMES.get(verdict.signal),
    }
    observations.append(
        Observation(
            "failed-first",
            sentence(_grounds(verdict, roster) if kept_waiting else story)[:SHOWN],
            _source(verdict, texts),
            {key: value for key, value in data.items() if value not in (None, "", [])},
        )
    )
    facts.update(_facts(verdict, roster, facts, story if kept_waiting else ""))
    return Evidence(_outcome(verdict, texts, story), observations, facts, "logs")


def _source(verdict: Verdict, texts: Sequence[TextEvidence]) -> str:
    """The line that shows it: its own words, else where its log stops."""
    said = verdict.record.own_text[:60] if verdict.record is not None else ""
    observed = [o for text in texts[:1] for o in text.observations]
    for o in observed:
        if said and said in o.text and o.kind in ("traceback", "line", "native-stack", "exit-line"):
            return o.source
    last = [o.source for o in observed if o.kind == "progress"]
    anywhere = [o.source for text in texts for o in text.observations]
    return (last[-1:] or anywhere[:1] or ["output:1"])[0]


def _of_witness(text: TextEvidence) -> TextEvidence:
    """What it tells of the failure; where it stood itself is not where the job failed."""
    private = ("where", "raised_at", "exception", "exception_text", "last_step", "echoes")
    kept = {k: v for k, v in text.facts.items() if k not in (*private, "failed_first", "loss")}
    return replace(text, facts=kept)


def _facts(verdict: Verdict, roster: Roster, known: dict[str, Any], story: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"failed_first": verdict.who, "logs_read": len(roster.ranks)}
    if verdict.host:
        facts["host"] = verdict.host
    if story:
        facts["rank_story"] = story
        facts["exception_text"] = None
    step = _step(verdict, roster)
    if step is not None:
        facts.setdefault("last_step", known.get("last_step", step))
    where = known.get("where")
    if isinstance(where, dict) and len(verdict.ranks) == 1:
        facts["where"] = {**where, "process": _name(verdict)}
    if missing := roster.missing:
        facts["logs_missing"] = len(missing)
    return {key: value for key, value in facts.items() if value is not None}


def _outcome(verdict: Verdict, texts: Sequence[TextEvidence], story: str) -> Outcome:
    if verdict.how == "signal" and verdict.signal in SIGNAL_NAMES:
        name = SIGNAL_NAMES[verdict.signal]
        who = verdict.who[:1].upper() + verdict.who[1:]
        return Outcome("signal", f"{who} was ended by {name}.", signal=name)
    for text in texts[:1] if verdict.how == "own" else texts:
        if text.outcome.kind not in ("ok", "unknown"):
            return text.outcome
    return Outcome("unknown", sentence(story))


def _name(verdict: Verdict) -> str:
    return f"rank {verdict.ranks[0]}" if len(verdict.ranks) == 1 else verdict.who


def _step(verdict: Verdict, roster: Roster) -> int | None:
    if verdict.record is not None and verdict.record.step is not None:
        return verdict.record.step
    return verdict.waited.step if verdict.waited is not None else None


def _grounds(verdict: Verdict, roster: Roster) -> str:
    """What of the logs says so, where no line of the first one does."""
    record, missing = verdict.record, len(roster.missing)
    looked = f"of {_ranks(roster.world)}, {len(roster.ranks):,} left a log"
    looked += f" and {missing:,} did not" if missing else ""
    if verdict.waiting:
        looked += f"; {verdict.waiting:,} say that they waited"
    if record is not None and record.enqueued is not None and verdict.how == "never-entered":
        return f"{verdict.who} had enqueued collectives up to #{record.enqueued:,}; {looked}"
    if record is not None and verdict.how in ("silent", "host-lost", "left-early"):
        return f"the log of rank {record.rank} ends without a failure; {looked}"
    return looked


def story_of(verdict: Verdict, roster: Roster) -> str:
    """Who, what and when, in one sentence, and what the others waited in."""
    who = _who(verdict, roster)
    waited = _waited(verdict)
    step = _step(verdict, roster)
    at = f" at step {step:,}" if step is not None else ""
    after = f" after step {step:,}" if step is not None else ""
    if verdict.how == "own":
        said = verdict.record.own_text if verdict.record else ""
        return f"{who} failed first{at}: {said[:160]}" + (f"; {waited}" if waited else "")
    if verdict.how == "signal":
        signal = SIGNAL_NAMES.get(verdict.signal)
        text = f"was ended by {signal}" if signal else "ended with an error, without a word"
        return f"{who} {text}{at}" + (f"; {waited}" if waited else "")
    if verdict.how == "never-entered":
        work = _work(verdict)
        text = f"{who} never entered {work or 'the collective'}"
        return text + _in_which(verdict)
    if verdict.how == "mismatch":
        return f"{who} called {_own_work(verdict)}" + _where_others(verdict)
    if verdict.how == "left-early":
        return f"{who} said that it had finished and left{after}" + (
            f", while {waited}" if waited else ", while the others went on"
        )
    if verdict.how == "silent":
        return f"{who} wrote nothing more{after}" + (f", while {waited}" if waited else "")
    if verdict.how == "gone":
        return f"{who} was gone{after}, without a last word: the others lost its heartbeat"
    if verdict.how == "host-lost":
        return f"{who} went silent{after}, without a last word" + (f"; {waited}" if waited else "")
    if len(verdict.ranks) == 1:
        return f"{who} failed first, and its log is missing: the others point to it" + (
            f"; {waited}" if waited else ""
        )
    missing = len(verdict.ranks)
    return (
        f"The first to fail is one of the {_ranks(missing)} whose logs are missing: none"
        f" of the"
        f" {len(roster.ranks):,} logs here shows a failure of its own"
        + (f"; {waited}" if waited else "")
    )


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count:,} ranks"


def _who(verdict: Verdict, roster: Roster) -> str:
    ranks = verdict.ranks
    if verdict.how == "host-lost" and ranks:
        return f"Host {verdict.host} (ranks {ranks[0]:,} to {ranks[-1]:,})"
    if len(ranks) == 1:
        return f"Rank {ranks[0]}" + (f" ({verdict.host})" if verdict.host else "")
    if verdict.host:
        return f"One of the {_ranks(len(ranks))} on {verdict.host}"
    return "A rank"


def _work(verdict: Verdict) -> str:
    waits = (verdict.waited.waits if verdict.waited else None) or {}
    if "number" not in waits:
        return ""
    return f"{_operation(waits)} #{int(waits['number']):,}"


def _operation(waits: dict[str, str]) -> str:
    return waits.get("operation", "a collective").strip("_").lower()


def _own_work(verdict: Verdict) -> str:
    waits = (verdict.record.waits if verdict.record else None) or {}
    elements = waits.get("elements")
    text = _operation(waits)
    if elements:
        text += f" of {int(elements):,} elements"
    return text + (f" as collective #{int(waits['number']):,}" if "number" in waits else "")


def _where_others(verdict: Verdict) -> str:
    waits = (verdict.waited.waits if verdict.waited else None) or {}
    elements = waits.get("elements")
    size = f" of {int(elements):,} elements" if elements else ""
    return f", where {_ranks(verdict.waiting - 1)} called {_operation(waits)}{size}"


def _in_which(verdict: Verdict) -> str:
    if not verdict.waiting:
        return ", in which the others waited"
    waits = (verdict.waited.waits if verdict.waited else None) or {}
    text = f", in which {_ranks(verdict.waiting)} waited"
    if "timeout_ms" in waits:
        text += f" and gave up after {seconds_in_words(int(waits['timeout_ms']) / 1000)}"
    return text


def _waited(verdict: Verdict) -> str:
    if not verdict.waiting:
        return ""
    waits = (verdict.waited.waits if verdict.waited else None) or {}
    text = f"{_ranks(verdict.waiting)} waited" + (f" in {_work(verdict)}" if _work(verdict) else "")
    if "timeout_ms" in waits:
        text += f" and gave up after {seconds_in_words(int(waits['timeout_ms']) / 1000)}"
    return text
