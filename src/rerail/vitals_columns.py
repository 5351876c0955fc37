"""The vitals, each declared once: what it is, its unit, its source, how it is summed and kept.

In: nothing. Out: `ProcessVitals`, whose fields are the columns of a process, and `MACHINE_COLUMNS`.
Sampler, buckets, log, the store's reader, the charts and the table in docs/vitals.md all follow
these declarations. A number that stands behind a label in a file of /proc/PID or in /proc/meminfo
is read by its declaration alone; anything else has a function of its own that reads it, in
platform/procfs.py for a process, in recorder/vitals/machine.py for the machine.

The order of the fields is the order on disk, where each file's header names it: append at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal

Unit = Literal["bytes", "count", "seconds", "share", "percent", "°C"]


@dataclass(frozen=True)
class Limit:
    """What a value of the machine comes up against."""

    column: str
    called: str  # in the event `limit-near`
    is_of_free: bool = False  # the value is what is left, not what is used
    is_in_each_second: bool = True  # in the 1 s rows too, since a death at a limit is told from it


@dataclass(frozen=True)
class Column:
    name: str
    what: str
    unit: Unit
    # A gauge goes up and down: a tree's sum has the living alone. A counter is a total that only
    # grows: what an ended process had stays in the sum, so that the sum never falls.
    kind: Literal["gauge", "counter"]
    source: str
    # What a bucket keeps of its rows beside the last value.
    keeps_extremes: bool
    chart: str = ""  # the title of its chart, where it has one of its own
    is_fraction: bool = False
    limit: Limit | None = None
    label: str = ""  # what its line in the source begins with, up to the number
    times: int = 1  # what the number is multiplied by: 1024 where the source counts in kB


def _gauge(
    what: str,
    unit: Unit,
    source: str,
    *,
    label: str = "",
    times: int = 1,
    keeps_extremes: bool = True,
    chart: str = "",
) -> Any:
    more = {"label": label, "times": times, "keeps_extremes": keeps_extremes, "chart": chart}
    return _field(what, unit, "gauge", source, **more)


def _counter(
    what: str,
    unit: Unit,
    source: str,
    *,
    label: str = "",
    times: int = 1,
    is_fraction: bool = False,
) -> Any:
    more = {"label": label, "times": times, "keeps_extremes": False, "is_fraction": is_fraction}
    return _field(what, unit, "counter", source, **more)


def _field(what: str, unit: Unit, kind: str, source: str, **more: Any) -> Any:
    told = {"what": what, "unit": unit, "kind": kind, "source": source, **more}
    return field(default=0.0 if more.get("is_fraction") else 0, metadata=told)


@dataclass(frozen=True)
class ProcessVitals:
    """One process at one moment. Rates are for the reader to compute: these are totals.

    A source is a file of /proc/PID; `statm` is read for every row, `smaps_rollup` as often as its
    cost allows, the others about once a second. A file without labels holds one number.
    """

    rss_anon_bytes: int = _gauge("anonymous memory in RAM", "bytes", "statm")
    # File pages are the kernel's to take back: where they peaked between two rows tells nothing.
    rss_file_bytes: int = _gauge("pages of files in RAM", "bytes", "statm", keeps_extremes=False)
    rss_shared_bytes: int = _gauge(
        "shared memory in RAM", "bytes", "status", label="RssShmem:", times=1024
    )
    swap_bytes: int = _gauge("memory in swap", "bytes", "status", label="VmSwap:", times=1024)
    threads: int = _gauge("threads", "count", "stat", chart="Threads")
    fds: int = _gauge("open file descriptors", "count", "fd", chart="Open files")
    cpu_seconds: float = _counter("CPU time, user and system", "seconds", "stat", is_fraction=True)
    minor_faults: int = _counter("page faults without I/O", "count", "stat")
    major_faults: int = _counter("page faults that waited for I/O", "count", "stat")
    read_bytes: int = _counter("read from storage", "bytes", "io", label="read_bytes:")
    written_bytes: int = _counter("written to storage", "bytes", "io", label="write_bytes:")
    voluntary_switches: int = _counter(
        "context switches while waiting", "count", "status", label="voluntary_ctxt_switches:"
    )
    involuntary_switches: int = _counter(
        "context switches by force", "count", "status", label="nonvoluntary_ctxt_switches:"
    )
    # What the three resident sizes have of pages that other processes of the tree have too and
    # that are counted there: without it a forked worker seems to hold all that its parent holds.
    anon_elsewhere_bytes: int = _gauge(
        "of the anonymous memory, counted in other processes",
        "bytes",
        "smaps_rollup",
        keeps_extremes=False,
    )
    file_elsewhere_bytes: int = _gauge(
        "of the pages of files, counted in other processes",
        "bytes",
        "smaps_rollup",
        keeps_extremes=False,
    )
    shared_elsewhere_bytes: int = _gauge(
        "of the shared memory, counted in other processes",
        "bytes",
        "smaps_rollup",
        keeps_extremes=False,
    )
    proportional: int = _gauge(
        "1 where the kernel has shared out its pages, 0 where they are estimated",
        "count",
        "smaps_rollup",
        keeps_extremes=False,
    )
    # A new column goes here, below the last one.

    @property
    def anon_bytes(self) -> int:
        """Anonymous memory, each page of the tree once."""
        return self.rss_anon_bytes - self.anon_elsewhere_bytes

    @property
    def file_bytes(self) -> int:
        """Pages of files in RAM, each page of the tree once."""
        return self.rss_file_bytes - self.file_elsewhere_bytes

    @property
    def shared_bytes(self) -> int:
        """Shared memory, each page of the tree once."""
        return self.rss_shared_bytes - self.shared_elsewhere_bytes

    @property
    def held_bytes(self) -> int:
        """What the kernel cannot take back: all but the pages of files, and what is in swap."""
        return self.anon_bytes + self.shared_bytes + self.swap_bytes

    @property
    def rss_bytes(self) -> int:
        """Memory in RAM, each page of the tree once: the sizes of processes add up to the tree's.

        In recordings without the columns of smaps_rollup: resident sizes, shared pages in each.
        """
        counted = self.rss_anon_bytes + self.rss_file_bytes + self.rss_shared_bytes
        elsewhere = self.anon_elsewhere_bytes + self.file_elsewhere_bytes
        return counted - elsewhere - self.shared_elsewhere_bytes


PROCESS_COLUMNS: tuple[Column, ...] = tuple(
    Column(each.name, **each.metadata) for each in fields(ProcessVitals)
)
PROCESS_NAMES: tuple[str, ...] = tuple(column.name for column in PROCESS_COLUMNS)


def _machine(
    name: str,
    what: str,
    unit: Unit,
    source: str,
    *,
    kind: Literal["gauge", "counter"] = "gauge",
    label: str = "",
    times: int = 1,
    keeps_extremes: bool = True,
    limit: Limit | None = None,
) -> Column:
    keeps_extremes = keeps_extremes and kind == "gauge"
    more: dict[str, Any] = {"limit": limit, "label": label, "times": times}
    return Column(name, what, unit, kind, source, keeps_extremes, **more)


def _fixed(name: str, what: str, unit: Unit, source: str, **more: Any) -> Column:
    """A size or a limit: it hardly ever changes, and its last value is enough."""
    return _machine(name, what, unit, source, keeps_extremes=False, **more)


MEMINFO = "/proc/meminfo"
_CGROUP = "memory cgroup nearest to its limit"
_TASKS = "pids cgroup nearest to its limit"

# `<N>` stands for a number. A value that the machine does not have is absent.
MACHINE_COLUMNS: tuple[Column, ...] = (
    _fixed("total_bytes", "RAM", "bytes", MEMINFO, label="MemTotal:", times=1024),
    _machine(
        "available_bytes",
        "RAM that can still be had",
        "bytes",
        MEMINFO,
        label="MemAvailable:",
        times=1024,
        limit=Limit("total_bytes", "machine memory", is_of_free=True),
    ),
    _machine("swap_free_bytes", "free swap", "bytes", MEMINFO, label="SwapFree:", times=1024),
    _machine("load_1m", "load average of one minute", "count", "getloadavg"),
    _fixed("shm_total_bytes", "size of /dev/shm", "bytes", "statvfs"),
    _machine(
        "shm_used_bytes",
        "used of the smallest /dev/shm that a process sees",
        "bytes",
        "statvfs",
        limit=Limit("shm_total_bytes", "shared memory"),
    ),
    _machine(
        "psi_memory_some_avg10",
        "time that a task waited for memory",
        "percent",
        "/proc/pressure/memory",
    ),
    _machine(
        "psi_memory_full_avg10",
        "time that all tasks waited for memory",
        "percent",
        "/proc/pressure/memory",
    ),
    _machine(
        "cgroup_usage_bytes",
        "memory that the group uses",
        "bytes",
        _CGROUP,
        limit=Limit("cgroup_limit_bytes", "memory"),
    ),
    _fixed("cgroup_limit_bytes", "memory that the group may use", "bytes", _CGROUP),
    _machine("cgroup_failcnt", "times the limit was hit", "count", _CGROUP, kind="counter"),
    _machine("cgroup_oom_kills", "processes killed for memory", "count", _CGROUP, kind="counter"),
    _machine(
        "cgroup_tasks",
        "processes and threads in the group",
        "count",
        _TASKS,
        limit=Limit("cgroup_tasks_limit", "tasks", is_in_each_second=False),
    ),
    _fixed("cgroup_tasks_limit", "tasks that the group may have", "count", _TASKS),
    _machine("disk_free_bytes", "free on the store's disk", "bytes", "statvfs"),
    _fixed("disk_total_bytes", "size of the store's disk", "bytes", "statvfs"),
    _machine("cwd_disk_free_bytes", "free on the working folder's disk", "bytes", "statvfs"),
    _fixed("cwd_disk_total_bytes", "size of the working folder's disk", "bytes", "statvfs"),
    _machine("gpu<N>_used_bytes", "memory in use on a GPU", "bytes", "NVML"),
    _fixed("gpu<N>_total_bytes", "memory of a GPU", "bytes", "NVML"),
    _machine("gpu<N>_utilisation", "time that a GPU computes", "share", "NVML"),
    _machine("gpu<N>_temperature", "temperature of a GPU", "°C", "NVML"),
    _machine(
        "recorder_cpu_seconds", "CPU time of rerail itself", "seconds", "times", kind="counter"
    ),
    _machine(
        "recorder_rss_bytes",
        "memory of rerail itself",
        "bytes",
        "/proc/self/statm",
        keeps_extremes=False,
    ),
)
_MACHINE_BY_NAME = {column.name: column for column in MACHINE_COLUMNS}
_NUMBER = re.compile(r"(?<=^gpu)\d+(?=_)", re.ASCII)


@lru_cache(maxsize=256)
def machine_column(name: str) -> Column | None:
    """The declaration of a machine's value, whichever GPU it is of."""
    return _MACHINE_BY_NAME.get(_NUMBER.sub("<N>", name))
