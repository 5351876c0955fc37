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

from rerail.evidence.first.log_words import (
    grounds_of,
    host_of,
    record_of,
    signal_of,
    step_of,
    story_of,
    waited_of,
)
from rerail.evidence.first.logs import Found, judge
from rerail.evidence.first.model import observation
from rerail.evidence.text.observing import SHOWN, TextEvidence
from rerail.evidence.text.rank_roster import Roster
from rerail.evidence.text.rank_survey import OpenableLog, RankRecord, survey
from rerail.platform.deadline import Deadline
from rerail.records import Evidence, Outcome
from rerail.wording import sentence

# What only several ranks together show; the rest one log, or a few, show by themselves.
SEEN_TOGETHER = frozenset({"collectives", "peers"})
# What of a witness's facts is about the witness: not where the job failed.
_PRIVATE = (
    *("where", "raised_at", "exception", "exception_text", "last_step", "echoes"),
    *("failed_first", "loss"),
)

# Position of a log and who wrote it -> what it shows.
Reader = Callable[[int, str], TextEvidence]


def collect_job(
    logs: Sequence[OpenableLog],
    deadline: Deadline,
    read: Reader,
    accepts: frozenset[str] | None = None,
) -> Evidence | None:
    """`accepts`: what has to show who failed first for the answer to count; anything if None."""
    records = survey(logs, deadline)
    roster = Roster(records)
    if len(roster.ranks) < 2 or len(roster.unknown) > len(roster.ranks):
        return None
    found = judge(roster)
    if found is None:
        return None
    if accepts is not None and (found.shown_by not in accepts or found.who.kind == "node"):
        return None
    return _Job(found, roster, read).evidence()


class _Job:
    def __init__(self, found: Found, roster: Roster, read: Reader) -> None:
        self._found = found
        self._roster = roster
        self._kept_waiting = not found.is_failure  # its own log shows no failure
        self._own = record_of(found)
        self._witnesses = self._chosen_witnesses()
        self._texts = [] if self._own is None else [read(self._own.at, found.who.name)]
        self._texts += self._read_witnesses(read)
        self._story = story_of(found, roster)

    def evidence(self) -> Evidence:
        left_out = ("failed-first", "healthy-end" if self._kept_waiting else "failed-first")
        seen = [o for text in self._texts for o in text.observations if o.kind not in left_out]
        known: dict[str, Any] = {}
        for text in self._texts:
            known.update({key: value for key, value in text.facts.items() if key not in known})
        shown = grounds_of(self._found, self._roster) if self._kept_waiting else self._story
        more = {
            "others": [f"rank {one.rank}" for one in self._witnesses if one.rank is not None],
            "other_count": len(self._roster.ranks) - (self._own is not None),
            "by": "structure",
            "host": host_of(self._found),
            "signal": signal_of(self._found),
            "shown_by": self._found.shown_by,
        }
        told = {key: value for key, value in more.items() if value not in (None, "", [])}
        seen.append(observation(self._found, sentence(shown)[:SHOWN], self._source(), **told))
        return Evidence(self._outcome(), seen, {**known, **self._facts(known)}, "logs")

    def _chosen_witnesses(self) -> list[RankRecord]:
        first = self._found.first
        witnesses = list(first.source.witnesses) if first is not None else []
        if self._kept_waiting and (waited := waited_of(self._found)) is not None:
            witnesses += [] if any(one is waited for one in witnesses) else [waited]
        return [one for one in witnesses if one is not self._own]

    def _read_witnesses(self, read: Reader) -> list[TextEvidence]:
        """Each file once: several ranks may have written into it."""
        by_file = {one.at: one for one in reversed(self._witnesses)}
        texts = []
        for at in dict.fromkeys(one.at for one in self._witnesses):
            if self._own is None or at != self._own.at:
                rank = by_file[at].rank
                text = read(at, f"rank {rank}" if rank is not None else "")
                facts = {name: v for name, v in text.facts.items() if name not in _PRIVATE}
                texts.append(replace(text, facts=facts))
        return texts

    def _source(self) -> str:
        """The line that shows it: its own words, else where its log stops."""
        said = self._own.own_text[:60] if self._own is not None else ""
        observed = [o for text in self._texts[:1] for o in text.observations]
        for o in observed:
            is_told = o.kind in ("traceback", "line", "native-stack", "exit-line")
            if said and said in o.text and is_told:
                return o.source
        last = [o.source for o in observed if o.kind == "progress"]
        anywhere = [o.source for text in self._texts for o in text.observations]
        return (last[-1:] or anywhere[:1] or ["output:1"])[0]

    def _facts(self, known: dict[str, Any]) -> dict[str, Any]:
        who = self._found.who
        facts: dict[str, Any] = {"failed_first": who.name, "logs_read": len(self._roster.ranks)}
        facts["host"] = host_of(self._found) or known.get("host")
        if self._kept_waiting:
            facts["rank_story"] = self._story
        if (step := step_of(self._found)) is not None:
            facts["last_step"] = known.get("last_step", step)
        where = known.get("where")
        if isinstance(where, dict) and len(who.ranks) == 1:
            facts["where"] = {**where, "process": f"rank {who.ranks[0]}"}
        facts["logs_missing"] = len(self._roster.missing) or None
        return {key: value for key, value in facts.items() if value is not None}

    def _outcome(self) -> Outcome:
        found, name = self._found, signal_of(self._found)
        has_words = found.how == "raised"
        if found.is_failure and not has_words and name is not None:
            who = found.who.name[:1].upper() + found.who.name[1:]
            return Outcome("signal", f"{who} was ended by {name}.", signal=name)
        for text in self._texts[:1] if has_words else self._texts:
            if text.outcome.kind not in ("ok", "unknown"):
                return text.outcome
        return Outcome("unknown", sentence(self._story))
