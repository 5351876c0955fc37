"""Who is which rank, of what the launcher told the process and what the process told of itself.

In: the processes of a run as the recorder saw them, and their black boxes. Out: the same processes
with rank, number of ranks, node and number of loader worker as far as they are known, and ranks
that were not among them: what `srun` starts are children of Slurm's daemon, and on a machine that
starts processes faster than the recorder can hear of them a short one may be missed. Pure.

What a process told when it joined the others goes before its environment, which may be that of
somebody else: all that a batch script of Slurm starts has SLURM_PROCID=0, and Lightning's first
rank has no variable at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rerail.platform.command_line import program_name
from rerail.records import BlackBox, ProcessRecord


def with_boxes(
    processes: Sequence[ProcessRecord], boxes: Iterable[BlackBox]
) -> list[ProcessRecord]:
    by_key = {f"{box.pid}-{box.start_ticks}": box for box in boxes}
    everybody = [*processes, *_not_seen(processes, by_key)]
    told = [_told(process, by_key.get(process.key)) for process in everybody]
    ranks = {process.pid: process.rank for process in told}
    found = []
    for process in told:
        box = by_key.get(process.key)
        is_one = process.role == "multiprocessing" and box is not None and box.rank is not None
        # A worker of a rank has its environment, and so its parent's number.
        if is_one and ranks.get(process.parent_pid or 0) != process.rank:
            process = replace(process, role="rank")
        found.append(process)
    return _on_one_node(found)


def _not_seen(
    processes: Sequence[ProcessRecord], boxes: Mapping[str, BlackBox]
) -> Iterator[ProcessRecord]:
    """Ranks with our agent that the recorder did not see; how they ended is not known.

    What a rank starts has its number and is no rank. The clock of another machine, which may share
    the folder, tells nothing here.
    """
    known = {process.key for process in processes}
    ranks = {process.pid: _rank_of(process, boxes.get(process.key)) for process in processes}
    ends = [process.ended_t_seconds for process in processes]
    last = max((t for t in ends if t is not None), default=None) if None not in ends else None
    for key, box in boxes.items():
        is_rank = box.rank is not None and ranks.get(box.parent_pid) != box.rank
        is_of_this_clock = box.started_t_seconds >= -1.0 and (
            last is None or box.started_t_seconds <= last
        )
        if is_rank and is_of_this_clock and key not in known:
            is_worker = box.loader_worker is not None
            yield ProcessRecord(
                pid=box.pid,
                start_ticks=box.start_ticks,
                parent_pid=box.parent_pid,
                role="loader-worker" if is_worker else "rank",
                name=_program(box),
                command=box.argv,
                started_t_seconds=max(box.started_t_seconds, 0.0),
            )


def _program(box: BlackBox) -> str:
    return program_name(box.argv[0]) if box.argv else ""


def _rank_of(process: ProcessRecord, box: BlackBox | None) -> int | None:
    return process.rank if box is None or box.rank is None else box.rank


def _told(process: ProcessRecord, box: BlackBox | None) -> ProcessRecord:
    if box is None:
        return process
    is_worker = process.role == "loader-worker"
    return replace(
        process,
        rank=_rank_of(process, box),
        world_size=process.world_size if box.world_size is None else box.world_size,
        worker=box.loader_worker if is_worker else process.worker,
    )


def _on_one_node(processes: list[ProcessRecord]) -> list[ProcessRecord]:
    """One recorder sees one machine: where its ranks name one number, it is that of all."""
    ranks = [process for process in processes if process.rank is not None]
    nodes = {process.node for process in ranks if process.node is not None}
    if len(nodes) != 1:
        return processes
    node = nodes.pop()
    return [
        replace(process, node=node) if process.rank is not None else process
        for process in processes
    ]
