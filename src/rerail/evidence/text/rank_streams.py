"""One log into which many ranks wrote: which lines are whose?

In: the raw lines of one file. Out: `Streams`: the lines of each rank, by the label that a launcher
put before every line (`[rank3]:`, `[default3]:`, `3: ` of srun --label, `[1,3]<stderr>:` of
mpirun, the name of a pod, Ray's `(Worker pid=…, ip=…)`), and the lines without one, which are the
launcher's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rerail.platform.patterns import LinearPattern, linear

FEWEST = 3  # ranks: of two, the order of the lines says as much
SHARE = 2  # the label stands before at least every second line
MOST_RANKS = 20_000
_LABELS: tuple[LinearPattern, ...] = (
    linear(r"^\[rank(?P<rank>\d{1,6})\]:? ?"),
    linear(r"^\[\d+,(?P<rank>\d{1,6})\]<std(?:err|out)>:? ?"),
    linear(r"^\s{0,6}(?P<rank>\d{1,6}): "),
    linear(r"^\[(?:default|trainer|worker)(?P<rank>\d{1,6})\]: ?"),
    linear(r"^(?:pod/)?[a-z][\w.-]*-(?P<rank>\d{1,6})(?: \||:|\]) "),
    linear(r"^\((?:[\w.]{1,60}\[rank=(?P<rank>\d{1,6})\]) pid=\d+(?:, ip=[\d.]+)?\) "),
    linear(r"^\([\w.]{1,60} (?P<who>pid=\d+(?:, ip=[\d.]+)?)\) "),
)


@dataclass
class Streams:
    """By rank: (line number, text without the label); None is the launcher."""

    of_ranks: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    launcher: list[tuple[int, str]] = field(default_factory=list)


def split_streams(lines: Sequence[tuple[int, str]]) -> Streams | None:
    """None where no label tells who wrote most of the lines."""
    for label in _LABELS:
        sample = [
            match for _, text in lines[:: max(1, len(lines) // 400)] if (match := label.match(text))
        ]
        if len(sample) * SHARE * max(1, len(lines) // 400) < len(lines):
            continue
        streams = _split(lines, label)
        if FEWEST <= len(streams.of_ranks) <= MOST_RANKS:
            return streams
    return None


def _split(lines: Sequence[tuple[int, str]], label: LinearPattern) -> Streams:
    streams = Streams()
    order: dict[
        str, int
    ] = {}  # where processes have names, not numbers: the order of their first lines
    by_name = "who" in label.groupindex
    for number, text in lines:
        match = label.match(text)
        if match is None:
            streams.launcher.append((number, text))
            continue
        rank = (
            order.setdefault(match.group("who"), len(order))
            if by_name
            else int(match.group("rank"))
        )
        streams.of_ranks.setdefault(rank, []).append((number, text[match.end() :]))
    return streams
