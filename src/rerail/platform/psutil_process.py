"""One process where there is no /proc (macOS): the same questions, answered by psutil.

Promises what procfs.ProcessReader promises, with less: macOS tells another process's resident
memory as one number, so all of it counts as anonymous; it tells no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.platform.procfs import SOURCES, THOUSAND, Detail, ProcessGone


class PsutilReader:
    def __init__(self, pid: int) -> None:
        import psutil

        self._psutil = psutil
        self.pid = pid
        self._last_rss_bytes = -1
        try:
            self._process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            raise ProcessGone(pid) from None

    def read_resident(self) -> tuple[int, int] | None:
        try:
            rss_bytes = int(self._process.memory_info().rss)
        except (self._psutil.NoSuchProcess, self._psutil.ZombieProcess):
            raise ProcessGone(self.pid) from None
        except self._psutil.AccessDenied:
            return None
        if rss_bytes == self._last_rss_bytes:
            return None
        self._last_rss_bytes = rss_bytes
        return rss_bytes, 0

    def read_detail(self, previous: Detail, sources: Sequence[str] = SOURCES) -> Detail:
        try:
            with self._process.oneshot():
                times = self._process.cpu_times()
                switches = self._process.num_ctx_switches()
                memory: Any = self._process.memory_info()
                page_ins = getattr(memory, "pageins", 0)
                return {
                    **previous,
                    "cpu_seconds": int((times.user + times.system) * THOUSAND),
                    "threads": self._process.num_threads(),
                    "fds": self._process.num_fds(),
                    "minor_faults": getattr(memory, "pfaults", 0) - page_ins,
                    "major_faults": page_ins,
                    "voluntary_switches": switches.voluntary,
                    "involuntary_switches": switches.involuntary,
                }
        except (self._psutil.NoSuchProcess, self._psutil.ZombieProcess):
            raise ProcessGone(self.pid) from None
        except self._psutil.AccessDenied:
            return previous

    def close(self) -> None:
        """psutil holds nothing open."""
