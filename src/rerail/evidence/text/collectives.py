"""Do the ranks agree on what they were communicating?

In: clean lines. Out: `Disagreement`s: collectives of one sequence number and process group that two
ranks describe differently. The watchdog prints what each rank waited for; ranks that wait for
different things under the same number will wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rerail.evidence.text.lines import Line
from rerail.platform.patterns import linear

_WORK = linear(
    r"\[(?:PG[^\]]*?)?Rank (?P<rank>\d+)\].{0,80}WorkNCCL\(SeqNum=(?P<number>\d{1,18}), "
    r"OpType=(?P<operation>\w+)(?:, NumelIn=(?P<elements>\d+))?"
)


@dataclass(frozen=True)
class Disagreement:
    line: Line
    number: int
    one: str
    other: str


def find_disagreements(lines: Iterable[Line]) -> list[Disagreement]:
    seen: dict[int, tuple[str, str]] = {}  # by number: rank, what it was doing
    found = []
    for line in lines:
        if "WorkNCCL(" not in line.text or not (match := _WORK.search(line.text)):
            continue
        number, rank = int(match.group("number")), match.group("rank")
        doing = match.group("operation")
        if elements := match.group("elements"):
            doing += f" of {elements} elements"
        first_rank, first_doing = seen.setdefault(number, (rank, doing))
        if first_rank != rank and first_doing != doing:
            found.append(
                Disagreement(
                    line, number, f"rank {first_rank}: {first_doing}", f"rank {rank}: {doing}"
                )
            )
    return found
