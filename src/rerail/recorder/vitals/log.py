"""Vitals on disk: rows at 10 Hz in, the lines of the three vitals files of a run folder out.

`vitals.recent.jsonl` holds the rows as they come and becomes `vitals.recent.old.jsonl` after a
minute, so that at least the last minute is always there; `vitals.jsonl` holds 1 s buckets of the
tree and 10 s buckets of the processes and the machine, with minima and maxima where they differ.
Promises: at most 4 MB per hour however many processes there are, because each file spends from
a byte budget and, where the budget is short, the processes that changed least wait their turn.
"""

from __future__ import annotations

import json
from typing import Protocol

from rerail.recorder.vitals.buckets import Bucket, Entry, ProcessTurns, encode_values, make_entry
from rerail.records import VitalsRow
from rerail.vitals_columns import MACHINE_COLUMNS

RECENT, OLD = "vitals.recent.jsonl", "vitals.recent.old.jsonl"
HISTORY = "vitals.jsonl"

RECENT_SECONDS = 60.0
TREE_BUCKET_SECONDS = 1.0
PROCESS_BUCKET_SECONDS = 10.0

# 4 MB in the first hour: 2 × 60 s × 8,800 B + 3,600 s × 800 B = 3.94 MB.
RECENT_BYTES_PER_SECOND = 8_800
HISTORY_BYTES_PER_SECOND = 800

# In a 1 s row stand the pairs that a death at a limit is told from; the rest is in the 10 s rows.
_PAIRS = tuple(
    (column.name, column.limit.column)
    for column in MACHINE_COLUMNS
    if column.limit is not None and column.limit.is_in_each_second
)


class Files(Protocol):
    """What `store.VitalsFiles` does, here or in the process that writes the record."""

    def write(self, name: str, line: str, t_seconds: float) -> None: ...

    def rotate(self, name: str, new_name: str, t_seconds: float) -> None: ...

    def close(self) -> None: ...


class VitalsLog:
    """Writes the vitals of one run."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._recent_since: float | None = None
        self._recent_turns = ProcessTurns(RECENT_BYTES_PER_SECOND, longest_silence_seconds=1.0)
        self._history_turns = ProcessTurns(HISTORY_BYTES_PER_SECOND, longest_silence_seconds=60.0)
        self._machine_written: dict[str, float] | None = None
        self._pairs_written: dict[str, float] = {}
        self._tree_bucket = Bucket()
        self._process_bucket = Bucket()
        self._last: VitalsRow | None = None

    def add(self, row: VitalsRow) -> None:
        """Take one 10 Hz row."""
        if self._last is not None and row.t_seconds < self._last.t_seconds:
            return  # the monotonic clock does not run backwards; a bucket must not either
        self._close_buckets_before(row.t_seconds)
        self._last = row
        self._write_recent(row)
        self._tree_bucket.add(row)
        self._process_bucket.add_processes(row)

    def close(self, death_row: VitalsRow | None = None) -> None:
        """Write the last row in full and the buckets that are still open."""
        if death_row is not None and death_row is not self._last:
            self.add(death_row)
        if self._last is not None:
            entries = [make_entry(key, vitals) for key, vitals in self._last.processes.items()]
            line = _line(self._last, 0.0, entries, self._last.machine, {}, {})
            self._files.write(RECENT, line, self._last.t_seconds)
            self._write_tree_bucket()
            self._write_process_bucket()
            self._last = None
        self._files.close()

    def _write_recent(self, row: VitalsRow) -> None:
        t = row.t_seconds
        if self._recent_since is None:
            self._recent_since = t
        elif t - self._recent_since >= RECENT_SECONDS:
            self._files.rotate(RECENT, OLD, t)
            self._recent_since = t
            self._machine_written = None
        # The machine is read twice a second; rows between carry the same dict and leave it out.
        machine = {} if row.machine is self._machine_written else row.machine
        self._machine_written = row.machine
        head, tail = _around_processes(row, 0.0, machine, {}, {})
        entries = self._recent_turns.choose(t, row.processes, len(head) + len(tail))
        line = head + ",".join([entry.text for entry in entries]) + tail
        self._files.write(RECENT, line, t)

    def _close_buckets_before(self, t: float) -> None:
        if self._tree_bucket.is_over(t, TREE_BUCKET_SECONDS):
            self._write_tree_bucket()
        if self._process_bucket.is_over(t, PROCESS_BUCKET_SECONDS):
            self._write_process_bucket()

    def _write_tree_bucket(self) -> None:
        row = self._tree_bucket.last
        if row is None:
            return
        machine: dict[str, float] = {}
        for used, limit in _PAIRS:
            if used in row.machine and self._pairs_written.get(used) != row.machine[used]:
                self._pairs_written[used] = row.machine[used]
                machine[used] = row.machine[used]
                if limit in row.machine:
                    machine[limit] = row.machine[limit]
        minimum, maximum = self._tree_bucket.tree_extremes("machine." + name for name in machine)
        line = _line(row, TREE_BUCKET_SECONDS, [], machine, minimum, maximum)
        self._history_turns.spend(row.t_seconds, len(line) + 1)
        self._files.write(HISTORY, line, row.t_seconds)
        self._process_bucket.absorb(self._tree_bucket)
        self._tree_bucket = Bucket()

    def _write_process_bucket(self) -> None:
        row = self._process_bucket.last
        if row is None:
            return
        minimum, maximum = self._process_bucket.tree_extremes(None)
        bare = _line(row, PROCESS_BUCKET_SECONDS, [], row.machine, minimum, maximum)
        entries = self._history_turns.choose(
            row.t_seconds,
            # Those that ended inside the bucket are in it too, with their last values.
            self._process_bucket.processes,
            len(bare),
            self._process_bucket.process_extremes,
        )
        for entry in entries:
            if entry.lowest_rss_bytes is not None:
                minimum[f"{entry.key}.rss_bytes"] = entry.lowest_rss_bytes
            if entry.highest_rss_bytes is not None:
                maximum[f"{entry.key}.rss_bytes"] = entry.highest_rss_bytes
        line = _line(row, PROCESS_BUCKET_SECONDS, entries, row.machine, minimum, maximum)
        self._files.write(HISTORY, line, row.t_seconds)
        self._process_bucket = Bucket()


def _line(
    row: VitalsRow,
    span_seconds: float,
    entries: list[Entry],
    machine: dict[str, float],
    minimum: dict[str, float],
    maximum: dict[str, float],
) -> str:
    head, tail = _around_processes(row, span_seconds, machine, minimum, maximum)
    return head + ",".join([entry.text for entry in entries]) + tail


def _around_processes(
    row: VitalsRow,
    span_seconds: float,
    machine: dict[str, float],
    minimum: dict[str, float],
    maximum: dict[str, float],
) -> tuple[str, str]:
    """A row's text before and after its processes."""
    return (
        f'{{"t":{round(row.t_seconds, 3)},"span":{span_seconds:g},"n":{row.process_count},'
        f'"tree":{encode_values(row.tree)},"procs":{{',
        f'}},"machine":{_encode(machine)},"min":{_encode(minimum)},"max":{_encode(maximum)}}}',
    )


def _encode(values: dict[str, float]) -> str:
    return json.dumps(values, separators=(",", ":")) if values else "{}"
