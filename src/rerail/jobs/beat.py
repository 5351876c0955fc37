"""What a node says of itself while its run lives: how far its ranks are, its network, its clock.

In: the folder of the run. Out: the document of one beat. Promises: numbers and names alone, nothing
that the program wrote, as black boxes are masked only when the run has ended; bounded in size.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from rerail.jobs.records import SCHEMA
from rerail.records import BlackBox
from rerail.store import AgentFiles, BoxReader

_MOST_RANKS = 64
_STEPS_TOLD = 24  # of each rank: two of them bound a clock to a step's length
_MOST_CHANGES = 32
_BUCKET_SECONDS = 60.0
_MOST_BUCKETS = 12
_LOOK_SECONDS = 0.9  # at the boxes
_NETWORK = Path("/sys/class/net")


class Pulse:
    """Makes the beats of one run, one after another."""

    def __init__(self, folder: Path, t0_ns: int, beat_seconds: float) -> None:
        self._t0_ns = t0_ns
        self._beat_seconds = beat_seconds
        self._boxes = BoxReader(AgentFiles(folder), t0_ns)
        self._number = 0
        self._links: dict[str, bool] = {}
        self._changes: deque[list[Any]] = deque(maxlen=_MOST_CHANGES)
        self._silences: deque[list[float]] = deque(maxlen=_MOST_CHANGES)
        self._heard: dict[str, dict[int, list[float]]] = {}
        self._waits: dict[int | None, list[Any]] = {}  # by rank: collective, first and last seen
        self._looked_t = -_LOOK_SECONDS
        self._ranks: list[BlackBox] = []

    def now(self) -> float:
        return round((time.monotonic_ns() - self._t0_ns) / 1e9, 3)

    def beat(self) -> dict[str, Any]:
        self._number += 1
        self._looked_t = -_LOOK_SECONDS
        self.look()
        boxes = self._ranks
        return {
            "schema": SCHEMA,
            "n": self._number,
            "ranks": [{**_rank(box), **self._waited(box.rank)} for box in boxes],
            "steps": {
                str(box.rank or 0): [
                    [point.step, point.t_seconds] for point in box.history[-_STEPS_TOLD:]
                ]
                for box in boxes
                if box.history
            },
            "links": list(self._changes),
            "silences": list(self._silences),
            "heard": {
                speaker: list(buckets.values())[-_MOST_BUCKETS:]
                for speaker, buckets in self._heard.items()
            },
            "unix": round(time.time(), 3),
            "t": self.now(),  # last: what others make of it is counted from here
        }

    def heard(self, speaker: str, their_t: float) -> None:
        """The closest of each minute is kept: it bounds the clocks best."""
        now = self.now()
        buckets = self._heard.setdefault(speaker, {})
        bucket = int(now // _BUCKET_SECONDS)
        known = buckets.get(bucket)
        if known is None or now - their_t < known[0] - known[1]:
            buckets[bucket] = [now, their_t]
        while len(buckets) > _MOST_BUCKETS:
            del buckets[min(buckets)]

    def was_silent(self, since_t: float, until_t: float) -> None:
        self._silences.append([since_t, until_t])

    def look(self) -> None:
        """A few times a second: what changed about the network, and what the ranks wait in."""
        now = self.now()
        self._look_at_links(now)
        if now - self._looked_t < _LOOK_SECONDS:
            return
        self._looked_t = now
        self._ranks = [box for box in self._boxes.read() if _is_of_a_rank(box)][:_MOST_RANKS]
        for box in self._ranks:
            if box.collective:
                known = self._waits.get(box.rank)
                since = known[1] if known is not None and known[0] == box.collective else now
                self._waits[box.rank] = [box.collective, since, now]

    def _waited(self, rank: int | None) -> dict[str, Any]:
        if rank not in self._waits:
            return {}
        return dict(
            zip(("waited_in", "waited_from", "waited_until"), self._waits[rank], strict=True)
        )

    def _look_at_links(self, now: float) -> None:
        found = link_states(_NETWORK)
        for name, is_up in found.items():
            if self._links.get(name) not in (None, is_up):
                self._changes.append([now, name, is_up])
        for name in self._links.keys() - found.keys():
            if self._links[name]:
                self._changes.append([now, name, False])
        self._links = found


def link_states(network: Path) -> dict[str, bool]:
    """By interface, whether a cable, a virtual one too, leads anywhere; without the loopback."""
    found = {}
    try:
        names = sorted(path.name for path in network.iterdir())[:64]
    except OSError:
        return {}
    for name in names:
        if name == "lo":
            continue
        try:
            found[name] = (network / name / "operstate").read_text().strip() in ("up", "unknown")
        except OSError:
            continue  # gone since
    return found


def _is_of_a_rank(box: BlackBox) -> bool:
    return bool(box.rank is not None or box.optimizer_steps or box.backward_calls)


def _rank(box: BlackBox) -> dict[str, Any]:
    return {
        "rank": box.rank,
        "step": box.optimizer_steps,
        "collective": box.collective,
        "phase": box.phase,
        "t": box.last_progress_t_seconds,
    }
