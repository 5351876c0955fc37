"""A closer look at a tree that makes no progress, in a child of the recorder with a deadline.

In: what the watch noticed, the processes and the run folder. Out: stalls.jsonl has one more record,
and a `Finding` goes back through a pipe: is it hung, what to say, and where. A tree that uses the
CPU is looked at several times, because one that spins in a barrier is hung too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rerail.recorder.stalls import busy_or_spinning, message, stacks, waits
from rerail.recorder.stalls.judgement import Stalled
from rerail.recorder.stalls.lock_holders import find_holder
from rerail.recorder.stalls.places import Place, find_places, most_workers, who_is_who
from rerail.recorder.stalls.stacks_by_debugger import take_variables
from rerail.recorder.stalls.thread_ids import kernel_ids
from rerail.records import LockHolder, ProcessRecord, Stall, ThreadStack
from rerail.store import RunFolder, RunWriter

VARIABLES_SECONDS = 3.0
_MOST_HOLDERS = 4  # processes whose locks are looked into
_MOST_FINDING_BYTES = 4000  # a pipe takes that much at once, and nobody reads before the end


@dataclass(frozen=True)
class Finding:
    is_hung: bool
    lines: list[str] = field(default_factory=list)
    hung_in: str = ""  # for the end of a sentence
    waits_kind: str | None = None

    def send(self, descriptor: int) -> None:
        data = json.dumps(asdict(self)).encode()
        if len(data) <= _MOST_FINDING_BYTES:
            os.write(descriptor, data)

    @classmethod
    def receive(cls, descriptor: int) -> Finding | None:
        """None: the look has failed."""
        try:
            data = os.read(descriptor, _MOST_FINDING_BYTES)
            return cls(**json.loads(data)) if data else None
        except (OSError, ValueError, TypeError):
            return None


def look_closer(
    writer: RunWriter, records: Sequence[ProcessRecord], stalled: Stalled, t: float, action: str
) -> Finding:
    """Look, write it down, and say what was found."""
    keys = [record.key for record in records]
    before, began = busy_or_spinning.cpu_ticks(keys), time.monotonic()
    found = stacks.take(records, writer.agent_dir, may_disturb=not stalled.is_early)
    is_hung = stalled.counts_as_hung
    if not is_hung and not stalled.is_early:
        looks = [found]
        for _ in range(busy_or_spinning.LOOKS - 1):
            time.sleep(busy_or_spinning.BETWEEN_LOOKS_SECONDS)
            looks.append(stacks.take(records, writer.agent_dir))
        after = busy_or_spinning.cpu_ticks(keys)
        is_hung = busy_or_spinning.only_spins(before, after, time.monotonic() - began, looks)
        found = looks[-1]
    boxes = {f"{box.pid}-{box.start_ticks}": box for box in RunFolder(writer.path).boxes()}
    places = find_places(found, who_is_who(records, boxes), most_workers(boxes.values()))
    holders = find_holders(places, found)
    stall = Stall(
        t,
        round(stalled.silent_seconds, 3),
        stalled.threshold_seconds,
        action,
        found,
        kind="stuck" if stalled.was_idle or is_hung > stalled.counts_as_hung else "busy",
        is_early=stalled.is_early,
        is_computing=stalled.is_computing,
        cpu_cores=round(stalled.cores, 3),
        pace_seconds=stalled.pace_seconds,
        holders=holders,
    )
    if is_hung or not stalled.is_again:
        writer.append("stalls.jsonl", stall)
    return Finding(
        is_hung,
        message.stall_lines(stall, places, holders),
        message.hung_in(places[0], holders) if places else "",
        places[0].waits.kind if places and places[0].waits else None,
    )


def find_holders(
    places: Sequence[Place], found: Mapping[str, Sequence[ThreadStack]]
) -> dict[str, LockHolder]:
    holders: dict[str, LockHolder] = {}
    waiting = [p for p in places if p.waits is not None and p.waits.kind in ("lock", "event")]
    for place in waiting[:_MOST_HOLDERS]:
        variables = take_variables(place.pid, VARIABLES_SECONDS)
        ids = kernel_ids(variables, place.pid, waits.look(place.pid, []))
        variables = {ids[thread]: frames for thread, frames in variables.items()}
        folder = Path(f"/proc/{place.pid}/cwd")
        holder = find_holder(place.thread, found[place.key], place.pid, variables, folder)
        if holder is not None:
            holders[place.key] = holder
    return holders
