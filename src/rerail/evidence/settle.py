"""Decides which fact wins, where several sources say something about the same thing.

In: claims, each with its source. Out: the facts of a run, each from the best source that is not
contradicted. `PRECEDENCE` is the one table of who goes before whom, and `CONTRADICTIONS` that of
what measured facts rule out; each row has its reason.
docs/design/which-fact-wins.md says why it is a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Source = Literal[
    "waited-for",
    "first-failure",
    "killed",
    "crash",
    "hang",
    "measured",
    "lost-worker",
    "chain",
    "worker",
    "exception",
    "output",
    "own-file",
    "exit-call",
]


@dataclass(frozen=True)
class Claim:
    """What one source says: facts that were seen together, and that are only true together."""

    by: Source
    facts: Mapping[str, Any]

    @property
    def process(self) -> str:
        """The process whose place this is, in words; "" where the source does not say."""
        return str((self.facts.get("where") or {}).get("process") or "")


class Row(NamedTuple):
    source: Source
    reason: str
    only_of_the_first: bool = False  # silent on what failed, if another process failed first


PRECEDENCE: tuple[Row, ...] = (
    Row("waited-for", "The run hung because this worker or thread was gone: there it began."),
    Row("first-failure", "The process that failed first is the cause of what the others say."),
    Row("killed", "The kernel wrote down whom it killed for memory.", True),
    Row("crash", "The signal handler ran in the process itself, at the instruction.", True),
    Row("hang", "The stack was read from the process while it stood still."),
    Row("measured", "The recorder measured it, or the process counted it: no text was read."),
    Row("lost-worker", "A worker that called exit says more than its parent, who lost it."),
    Row("chain", "What was raised first is the cause of what was raised from it."),
    Row("worker", "A worker's traceback has the place; its parent's says where it waited."),
    Row("exception", "The process's own hook saw the exception that nothing caught."),
    Row("output", "What was printed is read as text, and may be of another process.", True),
    Row("own-file", "A log file of the program's is read where its output gives no reason.", True),
    Row("exit-call", "A call of exit ended the program where nothing was raised."),
)
_RANK = {row.source: at for at, row in enumerate(PRECEDENCE)}
_ONLY_OF_THE_FIRST = {row.source for row in PRECEDENCE if row.only_of_the_first}

# Facts that come from one source together: the first of each names what the others belong to.
THE_EXCEPTION = (
    *("exception_text", "exception", "raised_at", "where"),
    *("file_in_hand", "peer_in_hand", "looked_in", "exception_before", "exception_after"),
)
THE_FIRST = ("failed_first", "echoes", "rank_story")
# Names of `THE_EXCEPTION` that a process which failed later has nothing to say about.
OF_AN_EXCEPTION = ("where", "raised_at", "exception", "exception_text")


class Contradiction(NamedTuple):
    names: tuple[str, ...]  # left out: the right value is not known
    reason: str
    is_there: Callable[[Mapping[str, Any]], bool]


def _exceeds(more: str, most: str) -> Callable[[Mapping[str, Any]], bool]:
    def is_there(facts: Mapping[str, Any]) -> bool:
        value, limit = facts.get(more), facts.get(most)
        return isinstance(value, int) and isinstance(limit, int) and value > limit

    return is_there


CONTRADICTIONS: tuple[Contradiction, ...] = (
    Contradiction(
        ("peak_rss_bytes", "memory_notion"),
        "The limit held, so a sum of samples above it counted shared pages twice.",
        _exceeds("peak_rss_bytes", "memory_limit_bytes"),
    ),
    Contradiction(
        ("total",),
        "A total below the step counts an epoch, an evaluation or files.",
        _exceeds("last_step", "total"),
    ),
)


def without_contradictions(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the measured facts rule out."""
    kept = dict(facts)
    for each in CONTRADICTIONS:
        if each.is_there(kept):
            kept = without(kept, each.names)
    return kept


def settle(claims: Iterable[Claim], first: str | None = None) -> dict[str, Any]:
    """Return each fact as its best source has it; `first`: who is known to have failed first."""
    facts: dict[str, Any] = {}
    for claim in sorted(claims, key=lambda claim: _RANK[claim.by]):
        said = dict(claim.facts)
        _add_code(facts, said)
        if first is not None and claim.by in _ONLY_OF_THE_FIRST and not _is_of(first, claim):
            said = without(said, OF_AN_EXCEPTION)
        for group in (THE_EXCEPTION, THE_FIRST):
            if _is_of_another(group[0], said, facts):
                said = without(said, group)
        for name, value in said.items():
            if value is not None:
                facts.setdefault(name, value)
    return facts


def without(facts: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in names}


def _is_of(first: str, claim: Claim) -> bool:
    """Whether it is about the process that failed first, or about a worker of it."""
    return claim.process == first or f" of {first} (" in claim.process


def _is_of_another(key: str, said: Mapping[str, Any], settled: Mapping[str, Any]) -> bool:
    """Whether a better source has settled which exception it was, and this is not that one."""
    known, other = settled.get(key), said.get(key)
    return None not in (known, other) and _in_one_line(other) != _in_one_line(known)


def _add_code(settled: dict[str, Any], said: Mapping[str, Any]) -> None:
    """A black box has no lines of code; a traceback that was printed may have the same frame's."""
    known, shown = settled.get("where"), said.get("where") or {}
    if not known or not shown.get("code") or "code" in known:
        return
    if any(known.get(name) != shown.get(name) for name in ("file", "line", "function")):
        return
    settled["where"] = {**known, "code": shown["code"]}
    if "raised_at" in settled and said.get("raised_at"):
        settled["raised_at"] = said["raised_at"]


def _in_one_line(value: object) -> str:
    return str(value or "").strip().partition("\n")[0]
