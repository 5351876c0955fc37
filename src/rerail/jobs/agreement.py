"""Which checkpoint do all nodes of a job go on from?

In: the checkpoints that this node could go on from, the newest first, by the names that the pattern
gives them; the job's place. Out: an `Agreement`: the newest one that every node has which said so
in time, and what there is to say about the others. Promises: it waits PATIENCE_SECONDS at most and
raises nothing; where nobody answers, this node's own choice stands.

Each node chooses when its own attempt has ended, which may be minutes before another's. So whoever
comes later finds what the others have chosen, and takes an older one if they did; that they chose a
newer one than it has cannot be mended any more, and is said.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rerail.jobs.membership import is_path_part
from rerail.jobs.place import Place, open_place
from rerail.jobs.records import HELLO, SCHEMA
from rerail.platform.os_text import printable

PATIENCE_SECONDS = 15.0
_POLL_SECONDS = 0.5
_MOST_NAMES = 100
_MOST_BYTES = 1 << 16
_MOST_TEXT = 500


@dataclass(frozen=True)
class Agreement:
    checkpoint: str | None  # the one to go on from; None: it has none
    remarks: tuple[str, ...] = ()


def agree(where: str, job: str, node: str, attempt: int, names: Sequence[str]) -> Agreement:
    """`names`: of this node's checkpoints from the one that it would take, the newest first."""
    own = list(names[:_MOST_NAMES])
    alone = Agreement(own[0] if own else None)
    try:
        place = open_place(where, job)
        told = {"schema": SCHEMA, "attempt": attempt, "checkpoints": own}
        place.write(_sign(node, attempt), json.dumps(told).encode())
        others = _others(place, node, attempt)
    except Exception as error:  # of the store's package too: the run goes on without the others
        why = f"the other nodes were not asked which checkpoint they take: {str(error)[:100]}"
        return Agreement(alone.checkpoint, (why,))
    return decide(own, others)


def decide(own: Sequence[str], others: Mapping[str, Sequence[str] | None]) -> Agreement:
    """The newest of ours that all others have. Pure; None: that node has not said anything."""
    silent = sorted(node for node, names in others.items() if names is None)
    told = {node: names for node, names in others.items() if names}
    remarks = []
    if silent:
        who = ", ".join(silent[:4]) + (", …" if len(silent) > 4 else "")
        remarks.append(f"not known yet which checkpoint {who} will go on from")
    common = [name for name in own if all(name in names for names in told.values())]
    if not own or common:
        chosen = common[0] if common else None
        lacking = sorted(node for node, names in told.items() if own and own[0] not in names)
        if lacking:
            remarks.append(f"node {lacking[0]} does not have {own[0]}: all go on from {chosen}")
        return Agreement(chosen, tuple(remarks))
    node, names = next((n, names) for n, names in sorted(told.items()) if own[0] not in names)
    remarks.append(
        f"node {node} goes on from {names[0]}, and this one has no checkpoint that all have:"
        f" it takes {own[0]}, and their weights will differ"
    )
    return Agreement(own[0], tuple(remarks))


def _sign(node: str, attempt: int) -> str:
    return f"{node}/attempt-{attempt}.checkpoints.json"


def _others(place: Place, own: str, attempt: int) -> dict[str, Sequence[str] | None]:
    until = time.monotonic() + PATIENCE_SECONDS
    told: dict[str, Sequence[str] | None] = {}
    while True:
        signs = set(place.signs())
        hellos = {name.partition("/")[0] for name in signs if name.endswith(f".{HELLO}.json")}
        for node in sorted(hellos - {own}):
            if told.get(node) is None and is_path_part(node):
                sign = _sign(node, attempt)
                told[node] = _names(place, sign) if sign in signs else None
        if None not in told.values() or time.monotonic() >= until:
            return told
        time.sleep(_POLL_SECONDS)


def _names(place: Place, sign: str) -> Sequence[str] | None:
    try:
        told: Any = json.loads(place.read(sign, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    names = told.get("checkpoints") if isinstance(told, dict) else None
    if not isinstance(names, list):
        return None
    texts = [name for name in names[:_MOST_NAMES] if isinstance(name, str)]
    return [printable(name[:_MOST_TEXT]) for name in texts]
