"""What the logs of many ranks show of the first failure, in words."""

from __future__ import annotations

from rerail.evidence.first.logs import Found
from rerail.evidence.text.rank_roster import Roster
from rerail.evidence.text.rank_survey import RankRecord
from rerail.platform.signal_names import OF_LINUX as SIGNAL_NAMES
from rerail.wording import seconds_in_words


def record_of(found: Found) -> RankRecord | None:
    """Return what its own log says; None where it is not among the files."""
    return found.first.source.record if found.first is not None else None


def host_of(found: Found) -> str:
    return found.first.source.host if found.first is not None else ""


def signal_of(found: Found) -> str | None:
    return SIGNAL_NAMES.get(found.first.source.signal) if found.first is not None else None


def waited_of(found: Found) -> RankRecord | None:
    """Return one that waited for it, or else one that lost another rank."""
    known = [*found.waiting[:1], *found.others[:1]]
    return known[0].source.record if known else None


def step_of(found: Found) -> int | None:
    records = (record_of(found), waited_of(found))
    if records[0] is not None and records[0].step is not None:
        return records[0].step
    return records[1].step if records[1] is not None else None


def grounds_of(found: Found, roster: Roster) -> str:
    """Return what the logs say where no line of the first one says it."""
    record, missing = record_of(found), len(roster.missing)
    looked = f"of {_ranks(roster.world)}, {len(roster.ranks):,} left a log"
    looked += f" and {missing:,} did not" if missing else ""
    if found.waiting:
        looked += f"; {len(found.waiting):,} say that they waited"
    is_behind = found.how == "stuck" and found.shown_by != "silence"
    if record is not None and record.enqueued is not None and is_behind:
        return f"{found.who.name} had enqueued collectives up to #{record.enqueued:,}; {looked}"
    is_quiet = found.how == "left" or found.shown_by == "silence" or _is_host(found)
    if record is not None and is_quiet:
        return f"the log of rank {record.rank} ends without a failure; {looked}"
    return looked


def story_of(found: Found, roster: Roster) -> str:
    """Return who, what and when in one sentence, and what the others waited in."""
    told = f"{_who(found)} {_what(found)}"
    if found.who.kind == "rank" and found.shown_by == "missing-log" and len(found.who.ranks) > 1:
        told = (
            f"The first to fail is one of the {_ranks(len(found.who.ranks))} whose logs are"
            f" missing: none of the {len(roster.ranks):,} logs here shows a failure of its own"
        )
    return told + _meanwhile(found)


def _is_host(found: Found) -> bool:
    return found.who.kind == "node"


def _what(found: Found) -> str:
    """Return what it did, in words that follow its name."""
    step = step_of(found)
    at = f" at step {step:,}" if step is not None else ""
    after = f" after step {step:,}" if step is not None else ""
    if found.how == "raised":
        record = record_of(found)
        return f"failed first{at}: {record.own_text[:160] if record else ''}"
    if found.is_failure:
        signal = signal_of(found)
        ended = f"was ended by {signal}" if signal else "ended with an error, without a word"
        return ended + at
    if found.how == "mismatch":
        return f"called {_own_call(found)}"
    if found.how == "left":
        return f"said that it had finished and left{after}"
    if found.how == "stuck":
        is_silent = found.shown_by == "silence"
        return f"wrote nothing more{after}" if is_silent else f"never entered {_in_what(found)}"
    if _is_host(found):
        return f"went silent{after}, without a last word"
    if found.shown_by == "missing-log":
        return "failed first, and its log is missing: the others point to it"
    return f"was gone{after}, without a last word: the others lost its heartbeat"


def _meanwhile(found: Found) -> str:
    """Return what the others did, with the word before it."""
    waited = _waited(found)
    if found.how == "mismatch":
        return _others_calls(found)
    if found.how == "stuck" and found.shown_by != "silence":
        return _in_which(found)
    if found.how == "left" and not waited:
        return ", while the others went on"
    is_gone = found.how == "lost" and found.shown_by == "peers" and not _is_host(found)
    if not waited or is_gone:
        return ""
    return f", while {waited}" if found.how in ("left", "stuck") else f"; {waited}"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count:,} ranks"


def _who(found: Found) -> str:
    ranks, host = found.who.ranks, host_of(found)
    if _is_host(found):
        name = found.who.name[:1].upper() + found.who.name[1:]
        return f"{name} (ranks {ranks[0]:,} to {ranks[-1]:,})" if host and ranks else name
    if len(ranks) == 1:
        return f"Rank {ranks[0]}" + (f" ({host})" if host else "")
    return f"One of the {_ranks(len(ranks))} on {host}" if host else "A rank"


def _waits(record: RankRecord | None) -> dict[str, str]:
    return (record.waits if record is not None else None) or {}


def _call(waits: dict[str, str]) -> str:
    return waits.get("operation", "a collective").strip("_").lower()


def _numbered_call(found: Found) -> str:
    waits = _waits(waited_of(found))
    return f"{_call(waits)} #{int(waits['number']):,}" if "number" in waits else ""


def _in_what(found: Found) -> str:
    return _numbered_call(found) or "the collective"


def _size(waits: dict[str, str]) -> str:
    elements = waits.get("elements")
    return f" of {int(elements):,} elements" if elements else ""


def _own_call(found: Found) -> str:
    waits = _waits(record_of(found))
    text = _call(waits) + _size(waits)
    return text + (f" as collective #{int(waits['number']):,}" if "number" in waits else "")


def _others_calls(found: Found) -> str:
    waits = _waits(waited_of(found))
    return f", where {_ranks(len(found.waiting) - 1)} called {_call(waits)}{_size(waits)}"


def _in_which(found: Found) -> str:
    if not found.waiting:
        return ", in which the others waited"
    return f", in which {_ranks(len(found.waiting))} waited{_gave_up(found)}"


def _waited(found: Found) -> str:
    if not found.waiting:
        return ""
    call = _numbered_call(found)
    text = f"{_ranks(len(found.waiting))} waited" + (f" in {call}" if call else "")
    return text + _gave_up(found)


def _gave_up(found: Found) -> str:
    waits = _waits(waited_of(found))
    if "timeout_ms" not in waits:
        return ""
    return f" and gave up after {seconds_in_words(int(waits['timeout_ms']) / 1000)}"
