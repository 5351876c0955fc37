"""What every rank has counted so far, from the few words of its black box that tell of its pace.

In: the folder where agents write. Out: one `Sample` per rank that trains. Three small reads a box,
of a file that its writer holds in memory; a box that cannot be read is left out.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from operator import itemgetter

from rerail.agent import rerail_layout as layout
from rerail.platform import proc_files
from rerail.recorder.stragglers.judgement import Sample
from rerail.recorder.vitals.progress import OpenBoxes
from rerail.store import AgentDir

_HEAD = struct.Struct(f"={layout.HEAD_SIZE // 8}q")
_PID = layout.HEAD["pid"] // 8
_STARTED = layout.HEAD["started_ns"] // 8
_GOODBYE = layout.HEAD["said_goodbye"] // 8
_CRASHED = layout.HEAD["crash_signal"] // 8
_NUMBERS = struct.Struct(f"={len(layout.NUMBERS)}q")
_LATER_AT = layout.WORD[layout.LATER_NUMBERS[0]]
_RING_WORDS = layout.COLLECTIVE_LENGTH * layout.COLLECTIVE_WORDS
_LATER = struct.Struct(f"={layout.AREA['collectives'] // 8 - _LATER_AT + _RING_WORDS}q")
_RING = layout.AREA["collectives"] // 8 - _LATER_AT
_WHAT = 3  # the word of a row that holds what kind of collective it was
_GRADIENTS = layout.COLLECTIVES.index("gradients")
_HISTORY = layout.AREA["history"]
_ROW = struct.Struct("=2q")


class RankCounters:
    def __init__(self, agent_dir: AgentDir) -> None:
        self._boxes = OpenBoxes(agent_dir)

    def read(self) -> list[Sample]:
        """Two processes may have had the same rank, one after the other: the later one counts."""
        found = {sample.rank: sample for _, sample in sorted(self._samples(), key=itemgetter(0))}
        return list(found.values())

    def close(self) -> None:
        self._boxes.close()

    def _samples(self) -> Iterator[tuple[int, Sample]]:
        """With when their processes started."""
        for descriptor, offset in self._boxes.places():
            try:
                sample = _read(descriptor, offset)
            except (OSError, struct.error):
                continue
            if sample is not None:
                yield sample


def _read(descriptor: int, offset: int) -> tuple[int, Sample] | None:
    def words(shape: struct.Struct, at: int) -> tuple[int, ...]:
        return shape.unpack(os.pread(descriptor, shape.size, offset + at))

    head = words(_HEAD, 0)
    numbers = words(_NUMBERS, layout.WORD[layout.NUMBERS[0]] * 8)
    rank, steps = numbers[layout.NUMBERS.index("rank")], _number(numbers, "optimizer_steps")
    if rank < 0 or steps <= 0 or head[_GOODBYE] or head[_CRASHED] > 0:
        return None
    at = _HISTORY + steps % layout.HISTORY_LENGTH * layout.HISTORY_WORDS * 8
    step, step_ns = words(_ROW, at)
    if step != steps:
        return None  # at this very moment it ends a step
    later = words(_LATER, _LATER_AT * 8)
    by_name = dict(zip(layout.LATER_NUMBERS, later, strict=False))
    rows = range(_RING + _WHAT, len(later), layout.COLLECTIVE_WORDS)
    waited = max(by_name["collective_ns"], 0)
    if any(later[row] & 0xFF == _GRADIENTS for row in rows):
        waited += max(by_name["backward_ns"], 0)  # where DistributedDataParallel waits
    pid, loaded = head[_PID], max(by_name["data_wait_ns"], 0)
    return head[_STARTED], Sample(rank, pid, steps, step_ns, waited, loaded, _queued(pid))


def _number(numbers: tuple[int, ...], name: str) -> int:
    return numbers[layout.NUMBERS.index(name)]


def _queued(pid: int) -> int:
    """Nanoseconds that its main thread stood in line for a processor; 0 where nobody counts."""
    fields = (proc_files.read(pid, "schedstat") or b"").split()
    return int(fields[1]) if len(fields) >= 2 and fields[1].isdigit() else 0
