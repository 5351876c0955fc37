"""What was raised first, where one exception led to another: "During handling of the above …".

In: the facts of the exception that ended the run, and the tracebacks of the output, which has all
of a chain. Out: a claim of the one that tells more, and `exception_after` or `exception_before` for
the other. What came first beats its echo: a file that is missing is the
fact, and the `DataError` that was raised from it says so; what goes wrong while a program tidies
up after its failure is no failure of its own. A KeyError that the program turned into words of its
own is only mentioned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.first.before import failed_before, is_of_emptiness, what_it_ran
from rerail.evidence.run.exceptions import exception_of
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.settle import Claim
from rerail.platform.patterns import linear
from rerail.records import Observation

# What a program looks for and may miss, before it does something else or says it in its own words.
_LOOKED_FOR = {
    *("KeyError", "IndexError", "LookupError", "AttributeError", "ImportError"),
    *("ModuleNotFoundError", "StopIteration", "StopAsyncIteration", "Empty"),
}
_CONVERTED = _LOOKED_FOR | {"ValueError", "TypeError", "AssertionError", "ZeroDivisionError"}
_MISHAPS = ("AttributeError", "NameError", "UnboundLocalError", "TypeError")
# The end of a traceback that came from another process as text.
_QUOTED = linear(r'\s*"""\s*$')
# A worker's traceback that another process prints as text is the same exception, not another one.
_FORWARDED = linear(r'^Caught \w+ in |"""\s*$')

# What a program prints of a failure that it goes on after.
_FAILED = linear(r"(?i)\b(?:fail(?:ed|ure|s)?|errors?|exception|could not|cannot)\b")


def read_chain(told: dict[str, Any], from_text: Sequence[Observation]) -> list[Claim]:
    """`told`: the exception that ended the run, as its process recorded it."""
    chain = _chain_of(told, from_text)
    if len(chain) < 2:
        return []
    first, last = chain[0].data, chain[-1].data
    is_the_same = _in_one_line(first) == _in_one_line(last)  # a full disk is full in `close` too
    if not is_the_same and not _tells_more(first, last):
        before = {"text": _in_one_line(first), "where": first["where"]}
        return [_of_the_same(told, {"exception_before": before})]
    process = (told.get("where") or {}).get("process")
    where = {**first["where"], **({"process": process} if process else {})}
    place = {"where": where, "raised_at": first.get("raised_at")}
    if is_the_same:
        return [_of_the_same(told, place)]
    after = {"text": _in_one_line(last), "where": last.get("where")}
    words = {"exception": first["type"], "exception_text": _whole(first)}
    return [Claim("chain", {**place, **words, "exception_after": after})]


def read_worker_of_a_pool(told: dict[str, Any], from_text: Sequence[Observation]) -> list[Claim]:
    """A pool raises the exception of a worker once more: the worker's traceback has the place.

    concurrent.futures, multiprocessing and joblib print it before their own, in quotes.
    """
    for o in from_text:
        if o.kind != "traceback" or not o.data.get("is_chained") or not o.data.get("where"):
            continue
        said = f"{o.data.get('full_type')}: {o.data.get('message', '')}"
        if _QUOTED.search(said) and _QUOTED.sub("", said) == told.get("exception_text"):
            where = {**o.data["where"], "process": "a worker process"}
            said_there = {"where": where, "raised_at": o.data.get("raised_at")}
            return [Claim("worker", {"exception_text": told["exception_text"], **said_there})]
    return []


def read_thread_before(
    run: RecordedRun, told: dict[str, Any], from_text: Sequence[Observation]
) -> list[Claim]:
    """What a thread raised that had to give what the exception of its process misses."""
    for box in run.boxes:
        before = failed_before(run, box, from_text)
        thread = before.of_thread if before is not None else None
        if thread is None or told.get("exception") != box.exception_type:
            continue
        data, process = thread.data, (told.get("where") or {}).get("process")
        where = {**data["where"], "process": process} if data.get("where") else None
        words = {"exception": data["type"], "exception_text": _whole(data)}
        place = {"where": where, "raised_at": data.get("raised_at")}
        after = {
            "crashed_thread": what_it_ran(thread),
            "exception_after": exception_of(box),
        }
        return [Claim("chain", {**words, **place, **after})]
    return []


def read_swallowed(told: dict[str, Any], from_text: Sequence[Observation]) -> list[Claim]:
    """What the program itself had said to have failed before it found nothing to go on with."""
    said = str(told.get("exception_text") or "")
    if not is_of_emptiness(said):
        return []
    tracebacks = [o for o in from_text if o.kind == "traceback"]
    end = next((o for o in tracebacks if _in_one_line(o.data) == said), None)
    lines = [o for o in from_text if o.kind == "line" and _FAILED.search(o.text)]
    lines = [o for o in lines if not o.data.get("is_context")]
    before = [o for o in lines if end is not None and _number(o) < _number(end)]
    if not before:
        return []
    last = max(before, key=_number)
    return [_of_the_same(told, {"exception_before": {"text": last.text}})]


def _number(observation: Observation) -> int:
    number = observation.source.rpartition(":")[2]
    return int(number) if number.isdigit() else 0


def _of_the_same(told: dict[str, Any], facts: dict[str, Any]) -> Claim:
    return Claim("chain", {"exception_text": told.get("exception_text"), **facts})


def _chain_of(told: dict[str, Any], from_text: Sequence[Observation]) -> list[Observation]:
    """In the order in which they were raised, from the first one that passed the user's code."""
    tracebacks = [o for o in from_text if o.kind == "traceback" and o.data.get("type")]
    said = str(told.get("exception_text") or "").strip().partition("\n")[0]
    ends = [at for at, o in enumerate(tracebacks) if said and _in_one_line(o.data) == said]
    if not ends:
        return []
    at = ends[-1]
    chain = [tracebacks[at]]
    while at > 0 and _leads_on(tracebacks[at - 1], chain[0]):
        at -= 1
        chain.insert(0, tracebacks[at])
    while len(chain) > 1 and not chain[0].data.get("where"):
        del chain[0]
    return chain


def _leads_on(before: Observation, after: Observation) -> bool:
    data = before.data
    return (
        bool(data.get("is_chained"))
        and not data.get("is_echo")
        and not _FORWARDED.search(str(data.get("message") or ""))
        and data.get("stream") == after.data.get("stream")
    )


def _tells_more(first: dict[str, Any], last: dict[str, Any]) -> bool:
    code = str((last.get("where") or {}).get("code") or "")
    if last.get("is_raised_in_own_code") and code.startswith("raise"):
        return first["type"] not in _CONVERTED
    return last["type"] in _MISHAPS and first["type"] not in _LOOKED_FOR


def _whole(data: dict[str, Any]) -> str:
    message = str(data.get("message") or "")
    return f"{data.get('full_type')}: {message}" if message else str(data.get("full_type"))


def _in_one_line(data: dict[str, Any]) -> str:
    return _whole(data).partition("\n")[0]
