"""Which ranks launchers, schedulers and kernels saw end, by what they wrote into a log.

In: what one file says that is not a rank's, and a `Roster`. Out: ranks, with the signals.
"""

from __future__ import annotations

from collections.abc import Iterator

from rerail.evidence.text.rank_roster import Roster
from rerail.evidence.text.rank_survey import RankRecord
from rerail.evidence.text.signal_words import SRUN_WORDS

# Signals that a process dies of; by SIGTERM and SIGABRT launchers and watchdogs end the others.
DEADLY = {9, 11, 7, 4, 8}


def deaths_in(record: RankRecord, roster: Roster) -> list[tuple[int, int]]:
    """Return the ranks that ended, each with its signal: 0 or less if it was none."""
    found: list[tuple[int, int]] = []
    pod = -1
    for name, said in record.said:
        if name in ("table-rank", "pod-name"):
            pod = int(said["rank"])
        rank, signal = _death(name, said, pod, record, roster)
        if rank is not None and rank >= 0:
            found.append((rank, signal))
    return found


def _death(
    name: str, said: dict[str, str], pod: int, record: RankRecord, roster: Roster
) -> tuple[int | None, int]:
    if name == "ended-mpirun":
        return int(said["rank"]), int(said["signal"])
    if name == "ended-srun":
        return int(said["rank"]), SRUN_WORDS.get(said["how"].strip().lower(), 0)
    if name == "ended-torchrun":
        rank = roster.rank_by_pid(record.host, int(said["pid"]))
        if rank is None:
            rank = roster.rank_by_place(record.host, int(said["local"]))
        return rank, -int(said["code"])
    if name == "table-code":
        return pod, -int(said["code"])
    if name == "pod-code":
        return pod, int(said["code"]) - 128
    if name in ("killed-kernel", "xid-kernel") and "pid" in said:
        return roster.rank_by_pid(record.host, int(said["pid"])), 9
    return None, 0


def ended_with_error(record: RankRecord, roster: Roster) -> Iterator[int]:
    """Yield the ranks that ended with an error code."""
    for name, said in record.said:
        if name == "ended-mpi" or (name == "ended-srun" and said["how"].startswith("Exited with")):
            yield int(said["rank"])
        elif name == "ended-torchrun" and int(said["code"]) > 0:
            rank = roster.rank_by_place(record.host, int(said["local"]))
            if rank is not None:
                yield rank


def signals_of_deepspeed(record: RankRecord) -> list[int]:
    """Return the deadly signals of which its launcher saw a rank die; it does not say which."""
    ended = (-int(said["code"]) for name, said in record.said if name == "ended-deepspeed")
    return [signal for signal in ended if signal in DEADLY]


def speaks_of_an_end(record: RankRecord) -> bool:
    return any(name.startswith("ended-") for name, _ in record.said)


def is_of_a_kernel(record: RankRecord) -> bool:
    return any(name.startswith(("killed-", "xid-", "pod-")) for name, _ in record.said)


def lost_node(record: RankRecord, roster: Roster) -> str:
    """Return the host that a scheduler says was lost; "" if it says so of none."""
    found = (said["node"] for name, said in record.said if name == "lost-node")
    return next((roster.host_named(node) for node in found), "")
