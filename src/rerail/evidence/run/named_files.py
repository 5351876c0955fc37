"""Is the file that an exception calls missing really missing?

In: a recorded run, on the machine of that run. Out: one `file-there` observation for each path that
an uncaught exception calls "not found" and that has been a file since before the end of the run.
Keras and others say so of a file that they cannot read. Promises: at most a few paths are looked
at, and none is opened.
"""

from __future__ import annotations

import stat
from pathlib import Path

from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.records import Observation
from rerail.wording import bytes_in_words, file_name, sentence

_MOST_PATHS = 4
_SAYS_MISSING = linear(r"(?i)not found|no such file|does not exist|cannot find|could not find")
_PATH = linear(
    r"['\"<](?P<quoted>[^'\"<>\n]{1,400})['\">]|=(?P<given>[^\s,;'\"<>]{1,400})"
    r"|(?P<bare>/[^\s,;:'\"<>]{1,400})"
)


def read_named_files(run: RecordedRun) -> list[Observation]:
    if not run.is_of_this_machine:
        return []
    end = run.info.started_unix + run.end_t_seconds
    found: dict[Path, Observation] = {}
    for box in run.boxes:
        said = (box.exception_text or "")[:2000]
        if not box.exception_type or not _SAYS_MISSING.search(said):
            continue
        for match in list(_PATH.finditer(said))[:_MOST_PATHS]:
            name = next(filter(None, match.groups())).rstrip(".")
            path = Path(box.exception_cwd or run.info.cwd, name)
            size = _size_before(path, end)
            if size is not None:
                text = f"the file {file_name(name)} is there, with {bytes_in_words(size)} ({path})"
                data = {"path": str(path), "size_bytes": size}
                found[path] = Observation("file-there", sentence(text), f"box:{box.pid}", data)
    return list(found.values())[:_MOST_PATHS]


def _size_before(path: Path, unix: float) -> int | None:
    """Of a file that has not been changed since; None of anything else."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    is_old = stat.S_ISREG(status.st_mode) and status.st_ctime <= unix
    return status.st_size if is_old else None
