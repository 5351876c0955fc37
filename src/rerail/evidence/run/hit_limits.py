"""Limits that a process ran into, told by the error or the signal that each of them has alone.

In: a recorded run and its observations. Out: facts with the limit that was hit. A short run is over
before its use of a limit was ever sampled; but "Too many open files" is only said by a process that
has as many as it may, and SIGXCPU is only sent to one that has used up its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.run.limits import process_limit
from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import Observation

_TOO_MANY_FILES = linear(r"\[Errno 24\]|Too many open files|\bEMFILE\b")
# torch and C++ streams say that a write failed, and not why. If files may not grow past a limit,
# that is the only reason on record; the disk is named where its figures show that it was full.
_TOO_LARGE_FILE = linear(
    r"\[Errno 27\]|File too large|\bEFBIG\b|inline_container\.cc:\d+\] \. unexpected pos"
    r"|PytorchStreamWriter failed writing|basic_ios::clear: iostream error"
)


def hit_limits(run: RecordedRun, observations: Sequence[Observation]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    said = "\n".join(o.text for o in observations if o.kind in ("exception", "traceback"))
    if _TOO_MANY_FILES.search(said):
        facts["open_files_limit"] = _whole(process_limit(run, "RLIMIT_NOFILE"))
    if _TOO_LARGE_FILE.search(said):
        facts["file_size_limit_bytes"] = _whole(process_limit(run, "RLIMIT_FSIZE"))
    if any(process.signal == "SIGXCPU" for process in run.processes):
        facts["cpu_limit_seconds"] = _whole(process_limit(run, "RLIMIT_CPU"))
    return {name: value for name, value in facts.items() if value is not None}


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
