"""Each process of a run: how far it is, what it uses, and what it does just now.

In: a snapshot. Out: `ProcessLine`s: those that died badly in that order, then the living by role,
then those that ended well. What a process does is what its black box says: the collective it is in,
or whom it waits for there, else its phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerail.live.snapshot import Snapshot
from rerail.records import BlackBox, ProcessRecord, VitalsRow
from rerail.store import with_boxes
from rerail.wording import RANK_ROLES, listed, seconds_in_words, share_in_percent

_INTERESTING = {"main": 0, "rank": 1, "launcher": 2, "loader-worker": 3}
_WAITS_SECONDS = 2.0  # a collective that takes longer waits for somebody
_IDLE_PERCENT = 1.0
_PACE_STEPS = 50
_LOAD_ROWS = 60  # six seconds at 10 Hz
_STARTS_SECONDS = 10.0  # before a process that has not been busy yet counts as idle


@dataclass(frozen=True)
class ProcessLine:
    pid: int
    role: str
    rank: int | None
    name: str
    rss_bytes: int | None
    cpu_percent: float | None
    state: str  # running, or how it ended
    is_alive: bool
    died_badly: bool
    step: int | None = None  # of its optimizer; of a loader worker its batches
    doing: str | None = None  # None where nothing is known, or it is over
    # Of a rank: seconds a step lately, and which parts of a step it waited so far.
    step_seconds: float | None = None
    collective_share: float | None = None
    data_share: float | None = None
    # Of how many ranks, on which node of the job; of a loader worker, which one it is.
    world_size: int | None = None
    node: int | None = None
    worker: int | None = None


def process_lines(snapshot: Snapshot) -> list[ProcessLine]:
    sizes, loads = _last_sizes(snapshot), _cpu_percent(snapshot.recent[-_LOAD_ROWS:])
    boxes = {f"{box.pid}-{box.start_ticks}": box for box in snapshot.boxes}
    living = _living_ranks(snapshot, boxes)
    lines = []
    ends: dict[int, float] = {}  # by the line's identity; who failed first stands first
    for process in with_boxes(snapshot.processes, snapshot.boxes):
        is_alive = process.ended_t_seconds is None and snapshot.info.state == "running"
        box = boxes.get(process.key)
        load = loads.get(process.key) if is_alive else None
        lines.append(
            ProcessLine(
                pid=process.pid,
                role=process.role,
                rank=process.rank,
                world_size=process.world_size if process.role in RANK_ROLES else None,
                node=process.node if process.role in RANK_ROLES else None,
                worker=process.worker,
                name=process.name,
                rss_bytes=sizes.get(process.key),
                cpu_percent=load,
                state=_state(process, is_alive),
                is_alive=is_alive,
                died_badly=process.signal is not None or process.exit_code not in (None, 0),
                step=(box.optimizer_steps or box.batches or None) if box else None,
                doing=_doing(process, box, living, load, snapshot) if is_alive else None,
                **_pace(box),
            )
        )
        ends[id(lines[-1])] = process.ended_t_seconds or 0.0
    order = {id(line): i for i, line in enumerate(lines)}
    lines.sort(
        key=lambda line: (
            not line.died_badly,
            ends[id(line)] if line.died_badly else 0.0,
            not line.is_alive,
            _INTERESTING.get(line.role, 9),
            line.rank if line.rank is not None else -1,
            order[id(line)],
        )
    )
    return lines


def _living_ranks(snapshot: Snapshot, boxes: dict[str, BlackBox]) -> list[BlackBox]:
    """Boxes of the ranks of one job that are still there."""
    found = []
    for process in snapshot.processes:
        box = boxes.get(process.key)
        if process.ended_t_seconds is None and box is not None and box.rank is not None:
            found.append(box)
    return found


def _doing(
    process: ProcessRecord,
    box: BlackBox | None,
    ranks: Sequence[BlackBox],
    cpu_percent: float | None,
    snapshot: Snapshot,
) -> str | None:
    now = snapshot.now_seconds
    if box is not None and box.collective:
        waited = now - box.last_progress_t_seconds if box.last_progress_t_seconds else 0.0
        behind = [r.rank for r in ranks if r is not box and not r.collective and r.rank is not None]
        behind += [
            r.rank
            for r in ranks
            if r.collective and r.optimizer_steps < box.optimizer_steps and r.rank is not None
        ]
        if waited >= _WAITS_SECONDS and behind:
            names = listed([str(rank) for rank in sorted(behind)[:3]])
            noun = "rank" if len(behind) == 1 else "ranks"
            return f"waiting {seconds_in_words(waited)} for {noun} {names}"
        if waited >= _WAITS_SECONDS:
            return f"{box.collective} for {seconds_in_words(waited)}"
        return box.collective
    if cpu_percent is not None and cpu_percent < _IDLE_PERCENT:
        has_begun = now - process.started_t_seconds >= _STARTS_SECONDS
        if has_begun and (box is None or box.last_progress_t_seconds is None):
            if process.role == "main" and _prints_progress(snapshot):
                return None
            return "idle"
    if box is None:
        return None
    doing, pace = box.phase or box.progress_text, _pace(box)
    if not box.collective_count or not pace:
        return doing
    waiting, data = map(share_in_percent, (pace["collective_share"], pace["data_share"]))
    shares = f"{waiting} in collectives, {data} for data"
    return f"{doing or 'steps'} · {shares}"


def _prints_progress(snapshot: Snapshot) -> bool:
    """A program whose steps are read from its output may need little CPU for them."""
    last = snapshot.printed_progress[-1] if snapshot.printed_progress else None
    return last is not None and snapshot.now_seconds - last.t_seconds < _STARTS_SECONDS


def _pace(box: BlackBox | None) -> dict[str, float]:
    """Ranks that wait for each other have one pace; where each of them waits tells them apart."""
    points = box.history[-_PACE_STEPS:] if box is not None and box.rank is not None else []
    if box is None or len(points) < 2 or points[-1].step <= points[0].step:
        return {}
    if not box.optimizer_steps:  # a damaged box
        return {}
    lasted = points[-1].t_seconds - points[0].t_seconds
    step = lasted / (points[-1].step - points[0].step)
    if step <= 0:
        return {}
    waited = box.collective_seconds / box.optimizer_steps / step
    loaded = box.data_wait_seconds / box.optimizer_steps / step
    return {
        "step_seconds": round(step, 6),
        "collective_share": round(min(1.0, waited), 4),
        "data_share": round(min(1.0, loaded), 4),
    }


def _state(process: ProcessRecord, is_alive: bool) -> str:
    if is_alive:
        return "running"
    if process.signal is not None:
        return f"{process.signal}, core" if process.dumped_core else process.signal
    if process.exit_code is not None:
        return "ended well" if process.exit_code == 0 else f"exit {process.exit_code}"
    return "ended" if process.ended_t_seconds is not None else "not seen to end"


def _last_sizes(snapshot: Snapshot) -> dict[str, int]:
    """Each process's last known size: a row of vitals need not name every process."""
    sizes: dict[str, int] = {}
    wanted = {process.key for process in snapshot.processes}
    for row in (*reversed(snapshot.recent), *reversed(snapshot.vitals)):
        for key in wanted & row.processes.keys():
            sizes[key] = row.processes[key].rss_bytes
            wanted.remove(key)
        if not wanted:
            break
    return sizes


def _cpu_percent(rows: Iterable[VitalsRow], over_seconds: float = 3.0) -> dict[str, float]:
    """Of one core, over the last few seconds."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for key, vitals in row.processes.items():
            points.setdefault(key, []).append((row.t_seconds, vitals.cpu_seconds))
    found = {}
    for key, series in points.items():
        t_last, cpu_last = series[-1]
        earlier = [point for point in series if point[0] <= t_last - over_seconds]
        t_first, cpu_first = earlier[-1] if earlier else series[0]
        if t_last > t_first:
            found[key] = round(100 * max(0.0, cpu_last - cpu_first) / (t_last - t_first), 1)
    return found
