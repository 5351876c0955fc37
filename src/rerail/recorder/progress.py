"""How far the training is, read from the agents' black boxes.

In: the folder where agents write. Out: one number that grows whenever any process of the tree makes
a step or takes a batch. A box that cannot be read counts nothing.
"""

from __future__ import annotations

from pathlib import Path


class ProgressCounters:
    def __init__(self, agent_dir: Path) -> None:
        self._agent_dir = agent_dir

    def total(self) -> int:
        from rerail.store.blackbox import read_box

        total = 0
        for path in self._agent_dir.glob("*.box"):
            try:
                box = read_box(path)
            except Exception:
                continue
            total += box.optimizer_steps + box.batches + box.backward_calls
        return total

    def close(self) -> None:
        """Nothing is held open yet."""
