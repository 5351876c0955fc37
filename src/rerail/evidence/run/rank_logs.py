"""The last lines of the files that one rank alone has written to.

In: a recorded run and a rank. Out: `RankLog`s: where its standard output and standard error went
(torchrun --redirects, accelerate --log_dir, deepspeed --enable_each_rank_log), and logs below the
working folder whose names have its number. Promises: files of the run's own time, on the run's own
machine; few, bounded, no links; secrets are masked as in the output.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rerail.evidence.run.log_files import masked, own_files, written_during
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.text.logs import rank_in_name
from rerail.store import open_regular

MOST_FILES = 4
MOST_LINES = 20
_TAIL_BYTES = 64 * 1024
_MOST_LINE = 300


@dataclass(frozen=True)
class RankLog:
    path: str
    lines: list[str] = field(default_factory=list)  # the last; none where it cannot be read here


def rank_logs(run: RecordedRun, rank: int) -> list[RankLog]:
    own = own_files(run)
    if not run.is_of_this_machine:
        return [RankLog(str(path)) for path, whose in own.items() if whose == rank]
    found = []
    for path, _ in written_during(run, own):
        if own[path] == rank if path in own else _is_named_after(path, rank, run.info.cwd):
            found.append(RankLog(str(path), _last_lines(path)))
    seen = {log.path for log in found}
    found += [RankLog(str(p)) for p, whose in own.items() if whose == rank and str(p) not in seen]
    return found[:MOST_FILES]


def _is_named_after(path: Path, rank: int, below: str) -> bool:
    """rank1.log, or rank1/log.txt; not of a folder that the run was started in."""
    inner = path.relative_to(below).parts if path.is_relative_to(below) else (path.name,)
    names = [rank_in_name(Path(part)) for part in reversed(inner)]
    return next((name for name in names if name), "") == f"rank {rank}"


def _last_lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            octets = file.read(_TAIL_BYTES)
    except OSError:
        return []
    text = octets.decode("utf-8", "replace")
    lines = text.splitlines()[1 if size > _TAIL_BYTES else 0 :]
    shown = [line.rstrip() for line in lines if line.strip()][-MOST_LINES:]
    return [line[:_MOST_LINE] for _, line in masked(list(enumerate(shown)))]
