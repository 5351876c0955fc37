"""How far the training is, read from the agents' black boxes.

In: the folder where agents write. Out: one number that grows whenever any process of the tree makes
a step, takes a batch or moves a progress bar. A box that cannot be read counts nothing; each read
is a few words of a file that its writer holds in memory.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from rerail.agent import rerail_layout as layout
from rerail.store import AgentDir, open_descriptor, taken_boxes

COUNTERS = (
    "optimizer_steps",
    "backward_calls",
    "batches",
    "progress_count",
    "collective_count",
)
_FIRST = min(layout.WORD[name] for name in COUNTERS)
_WORDS = max(layout.WORD[name] for name in COUNTERS) - _FIRST + 1
_PLACES = [layout.WORD[name] - _FIRST for name in COUNTERS]
_FORMAT = struct.Struct(f"={_WORDS}q")
MOST_BOXES = 256


class OpenBoxes:
    """The boxes of a run, each opened once."""

    def __init__(self, agent_dir: AgentDir) -> None:
        self._agent_dir = agent_dir
        self._boxes: dict[str, int] = {}

    def places(self) -> Iterator[tuple[int, int]]:
        """Descriptor and offset of each box that there is by now."""
        self._open_new()
        for name, descriptor in self._boxes.items():
            for offset in _places(name, descriptor):
                yield descriptor, offset

    def _open_new(self) -> None:
        for box in self._agent_dir.glob("*.box*"):
            is_new = box.name not in self._boxes and len(self._boxes) < MOST_BOXES
            if is_new and box.suffix in (".box", ".boxes"):
                try:
                    self._boxes[box.name] = open_descriptor(box, os.O_RDONLY)
                except OSError:
                    continue

    def close(self) -> None:
        for descriptor in self._boxes.values():
            os.close(descriptor)
        self._boxes.clear()


class ProgressCounters:
    def __init__(self, agent_dir: AgentDir) -> None:
        self._boxes = OpenBoxes(agent_dir)

    def total(self) -> int:
        return sum(_read(descriptor, offset) for descriptor, offset in self._boxes.places())

    def close(self) -> None:
        self._boxes.close()


def _places(name: str, descriptor: int) -> list[int]:
    """Where the boxes begin in this file."""
    if name.endswith(".box"):
        return [0]
    try:
        return taken_boxes(os.pread(descriptor, layout.BOXES_HEAD_SIZE, 0))
    except OSError:
        return []


def _read(descriptor: int, offset: int) -> int:
    try:
        words = _FORMAT.unpack(os.pread(descriptor, _FORMAT.size, offset + _FIRST * 8))
    except (OSError, struct.error):
        return 0
    return sum(max(words[place], 0) for place in _PLACES)
