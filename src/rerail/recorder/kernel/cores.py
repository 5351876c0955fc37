"""Core files that appeared during the run.

In: /proc/sys/kernel/core_pattern and the folders that processes of the tree worked in. Out: paths
of new files that fit the pattern, or why there can be none. Reads only names and times.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path

_SPECIFIER = re.compile(r"%(.)")


def pattern_to_glob(pattern: str) -> str:
    """%p, %e, %t and the like may be anything; %% is a percent sign."""
    parts: list[str] = []
    end = 0
    for found in _SPECIFIER.finditer(pattern):
        parts.append(glob.escape(pattern[end : found.start()]))
        parts.append("%" if found[1] == "%" else "*")
        end = found.end()
    parts += [glob.escape(pattern[end:]), "*"]  # core_uses_pid appends the pid
    # Two stars in a row would mean any folder.
    return re.sub(r"\*+", "*", "".join(parts))


def find_core_files(pattern: str, folders: list[Path], since_unix: float) -> list[str]:
    """Core files written since then, oldest first."""
    if not pattern or pattern.startswith("|"):
        return []
    wanted = pattern_to_glob(pattern)
    candidates = (
        [Path(name) for name in glob.glob(wanted)]  # noqa: PTH207
        if pattern.startswith("/")
        else [path for folder in folders for path in _glob(folder, wanted)]
    )
    found: dict[str, float] = {}
    for path in candidates:
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file() and status.st_mtime >= since_unix - 1.0 and _is_core(path):
            found[str(path)] = status.st_mtime
    return sorted(found, key=lambda name: found[name])


def _glob(folder: Path, wanted: str) -> list[Path]:
    try:
        return list(folder.glob(wanted))
    except (OSError, ValueError):
        return []


def _is_core(path: Path) -> bool:
    """An ELF file of type ET_CORE, so that a source folder's core.py is not taken for one."""
    try:
        with path.open("rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "little") == 4


def read_core_pattern() -> str:
    try:
        return Path("/proc/sys/kernel/core_pattern").read_text(errors="replace").strip()
    except OSError:
        return ""
