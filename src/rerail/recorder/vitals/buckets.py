"""What a thinned row of vitals keeps, and which processes get a place in a row.

Pure: rows in, extremes and choices out. A Bucket gathers the rows of one stretch of time; its
values are those of its last row, its extremes are exact. ProcessTurns shares a byte budget among
processes: those whose memory moved most come first, and none is silent for longer than the given
time as long as the budget can carry everybody once in that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rerail.records import ProcessVitals, VitalsRow
from rerail.vitals_columns import PROCESS_COLUMNS, machine_column

_TREE_EXTREMES = tuple(
    (f"tree.{column.name}", column.name) for column in PROCESS_COLUMNS if column.keeps_extremes
)
_ROW_BYTES = 1  # the line's end
_NEWS_BYTES = 1 << 20
_SMALL_TREE = 8  # up to here every change is written as it comes
_EXTREME_BYTES = 34  # ,"4194304-123456789.rss_bytes":12345
_MOST_SAVED_SECONDS = 15.0  # an allowance not used does not add up for longer than this


def encode_values(vitals: ProcessVitals) -> str:
    """The values as a JSON list, in the order of ProcessVitals."""
    return "[" + ",".join(map(str, vitals.__dict__.values())) + "]"


class Bucket:
    """The rows of one stretch of time. Totals only grow and have no extremes worth keeping."""

    def __init__(self) -> None:
        self.last: VitalsRow | None = None
        self.processes: dict[str, ProcessVitals] = {}
        self.process_extremes: dict[str, tuple[int, int]] = {}
        self._since: float | None = None
        self._lowest: dict[str, float] = {}
        self._highest: dict[str, float] = {}
        self._machine: dict[str, float] | None = None

    def is_over(self, t_seconds: float, span_seconds: float) -> bool:
        """Does a row of this time belong to a later bucket? Buckets begin at whole spans."""
        return self._since is not None and (t_seconds // span_seconds) > (
            self._since // span_seconds
        )

    def add(self, row: VitalsRow) -> None:
        if self._since is None:
            self._since = row.t_seconds
        self.last = row
        tree = row.tree
        self._note("tree.rss_bytes", tree.rss_bytes)
        values = tree.__dict__
        for name, field in _TREE_EXTREMES:
            self._note(name, values[field])
        if row.machine is not self._machine:
            self._machine = row.machine
            for name, value in row.machine.items():
                column = machine_column(name)
                if column is not None and column.keeps_extremes:
                    self._note("machine." + name, value)

    def absorb(self, shorter: Bucket) -> None:
        """Take over the rows of a bucket that ended inside this one."""
        if self._since is None:
            self._since = shorter._since
        self.last = shorter.last
        for name in shorter._lowest:
            self._note(name, shorter._lowest[name])
            self._note(name, shorter._highest[name])

    def add_processes(self, row: VitalsRow) -> None:
        """Keep who is in the row, and how far the memory of each went."""
        known, extremes = self.processes, self.process_extremes
        for key, vitals in row.processes.items():
            if known.get(key) is vitals:
                continue
            known[key] = vitals
            rss = vitals.rss_bytes
            low, high = extremes.get(key, (rss, rss))
            if rss <= low or rss >= high:
                extremes[key] = (min(low, rss), max(high, rss))

    def _note(self, name: str, value: float) -> None:
        lowest = self._lowest
        if name not in lowest:
            lowest[name] = self._highest[name] = value
        elif value < lowest[name]:
            lowest[name] = value
        elif value > self._highest[name]:
            self._highest[name] = value

    def tree_extremes(
        self, machine_names: Iterable[str] | None
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Minima and maxima that differ from the last row's own values.

        `machine_names` limits which of the machine's are given; None gives all of them.
        """
        if self.last is None:
            return {}, {}
        wanted = None if machine_names is None else set(machine_names)
        lowest: dict[str, float] = {}
        highest: dict[str, float] = {}
        for name in self._lowest:
            room, _, field = name.partition(".")
            if room == "machine" and wanted is not None and name not in wanted:
                continue
            if room == "tree":
                value: float | None = getattr(self.last.tree, field)
            else:
                value = self.last.machine.get(field)
            if self._lowest[name] != value:
                lowest[name] = self._lowest[name]
            if self._highest[name] != value:
                highest[name] = self._highest[name]
        return lowest, highest


class Entry(NamedTuple):
    """A process's place in a row."""

    key: str
    text: str
    lowest_rss_bytes: int | None = None  # only where it differs from the value itself
    highest_rss_bytes: int | None = None


def make_entry(key: str, vitals: ProcessVitals, extremes: tuple[int, int] | None = None) -> Entry:
    text = f'"{key}":{encode_values(vitals)}'
    if extremes is None:
        return Entry(key, text)
    rss = vitals.rss_bytes
    lowest, highest = extremes
    return Entry(key, text, lowest if lowest != rss else None, highest if highest != rss else None)


class ProcessTurns:
    """Gives processes their places within a budget of bytes per second."""

    def __init__(self, bytes_per_second: float, longest_silence_seconds: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._longest_silence_seconds = longest_silence_seconds
        self._allowance_bytes = 0.0
        self._allowed_until: float | None = None
        self._written: dict[str, tuple[float, ProcessVitals]] = {}
        self._unwritten_extremes: dict[str, tuple[int, int]] = {}

    def spend(self, t_seconds: float, size_bytes: int) -> float:
        """Bring the allowance up to this time and take from it; what is left comes back."""
        if self._allowed_until is None:
            self._allowed_until = t_seconds - 1.0
        self._allowance_bytes += (t_seconds - self._allowed_until) * self._bytes_per_second
        self._allowed_until = t_seconds
        most = _MOST_SAVED_SECONDS * self._bytes_per_second
        self._allowance_bytes = min(self._allowance_bytes, most) - size_bytes
        return self._allowance_bytes

    def choose(
        self,
        t_seconds: float,
        processes: Mapping[str, ProcessVitals],
        row_bytes: int,
        extremes: Mapping[str, tuple[int, int]] | None = None,
    ) -> list[Entry]:
        """Who gets a place in this row; a row itself costs `row_bytes`."""
        self.spend(t_seconds, row_bytes + _ROW_BYTES)
        if extremes is not None:
            self._keep_extremes(extremes)
        chosen: list[Entry] = []
        for key in self._by_urgency(t_seconds, processes):
            # One place at the least, so that a budget gone negative cannot silence everybody.
            if self._allowance_bytes <= 0 and chosen:
                break
            entry = make_entry(key, processes[key], self._unwritten_extremes.get(key))
            size = len(entry.text) + 1
            if extremes is not None:
                size += 2 * _EXTREME_BYTES
                self._unwritten_extremes.pop(key, None)
            self._allowance_bytes -= size
            self._written[key] = (t_seconds, processes[key])
            chosen.append(entry)
        if len(self._written) > 2 * len(processes) + 16:
            self._forget_all_but(processes)
        return chosen

    def _keep_extremes(self, extremes: Mapping[str, tuple[int, int]]) -> None:
        """A process that had to wait keeps its extremes until it is written."""
        for key, (low, high) in extremes.items():
            old_low, old_high = self._unwritten_extremes.get(key, (low, high))
            self._unwritten_extremes[key] = (min(low, old_low), max(high, old_high))

    def _by_urgency(self, t_seconds: float, processes: Mapping[str, ProcessVitals]) -> list[str]:
        ranked: list[tuple[float, float, str]] = []
        is_small = len(processes) <= _SMALL_TREE
        for key, vitals in processes.items():
            written = self._written.get(key)
            if written is None:
                ranked.append((0.0, 0.0, key))
                continue
            silent_seconds = t_seconds - written[0]
            if silent_seconds >= self._longest_silence_seconds - 0.01:
                ranked.append((1.0, -silent_seconds, key))
            elif written[1] is not vitals:
                rss = vitals.rss_bytes
                moved = abs(rss - written[1].rss_bytes)
                # A megabyte or one in 64 is news; less waits until its time has come, if need be.
                if moved >= _NEWS_BYTES and moved >= rss >> 6:
                    ranked.append((0.5, -moved, key))
                elif is_small:
                    ranked.append((2.0, -moved, key))
        ranked.sort()
        return [key for _, _, key in ranked]

    def _forget_all_but(self, processes: Mapping[str, ProcessVitals]) -> None:
        self._written = {key: self._written[key] for key in processes if key in self._written}
        self._unwritten_extremes = {
            key: value for key, value in self._unwritten_extremes.items() if key in processes
        }
