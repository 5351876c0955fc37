"""What the program wrote into log files of its own, where its output does not say how it failed.

In: a recorded run and what its output shows. Out: the same with what the logs show that were
written during the run, below its working folder: `python train.py > train.log 2>&1` in a script, a
logger with a file, a launcher's folder of logs per rank. Promises: nothing is read if the output or
a process has named an exception already, or on another machine than that of the run; only what the
record shows to be this run's (log_owner); of a run that hung or crashed only the files to which its
ranks' output went; regular files only, no links, bounded in number, depth and time; secrets are
masked as in the output.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rerail.catalogue import load_catalogue
from rerail.errors import UnreadableInput
from rerail.evidence.run.log_owner import LogOwner
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.settle import OF_AN_EXCEPTION, Claim
from rerail.evidence.text.logs import MANY_SHARE, observe_text, rank_in_name, search_words
from rerail.evidence.text.observing import TextEvidence
from rerail.evidence.text.scan import read_excerpt
from rerail.platform.deadline import Deadline
from rerail.platform.patterns import linear
from rerail.privacy import Masker, OutputMasker
from rerail.store import RunFolder

MOST_READ = 8  # the newest
MOST_LOOKED_AT = 3000  # names below the working folder
MOST_DEPTH = 3
# File times come from a clock that ticks every 1 to 10 ms and is never ahead. A longer allowance
# takes the log of a run that was started right after this one for this one's.
LATE_SECONDS = 0.02
_LOG = linear(r"(?i)\.(?:log|out|err|stderr|stdout)(?:\.\d+)?$|^(?:log|stdout|stderr|nohup)\b")
_NOT_OF_OUTPUT = ("progress", "failed-first", "healthy-end", "memory-growth")


def with_log_files(
    run: RecordedRun, folder: RunFolder | None, printed: TextEvidence, deadline: Deadline
) -> TextEvidence:
    """Return `printed` with what the program's log files show, where the record has no reason.

    `folder`: where the run lies, beside the others that may have written such a file.
    """
    if not _is_worth_it(run, printed):
        return printed
    observations, claims = list(printed.observations), list(printed.claims)
    of_ranks = own_files(run)
    owner = LogOwner(run, folder)
    has_a_reason = _has_a_reason(run)
    left = MOST_READ
    for path, written in written_during(run, of_ranks):
        is_own = path in of_ranks
        if not is_own and (has_a_reason or not owner.is_of_this_run(path, written)):
            continue
        if left <= 0 or deadline.skips("log files of the program"):
            break
        left -= 1
        try:
            excerpt = read_excerpt(path, search_words(load_catalogue()), MANY_SHARE, deadline)
        except (UnreadableInput, OSError):
            continue
        if not is_own and owner.names_another(path, excerpt.lines):
            continue
        rank = of_ranks.get(path)
        who = rank_in_name(path) if rank is None else f"rank {rank}"
        told = observe_text(masked(excerpt.lines), deadline, who, label=path.name)
        observations += [o for o in told.observations if o.kind not in _NOT_OF_OUTPUT]
        said = {name: told.facts[name] for name in OF_AN_EXCEPTION if name in told.facts}
        claims.append(Claim("own-file", said))
    return replace(printed, observations=observations, claims=claims)


def own_files(run: RecordedRun) -> dict[Path, int | None]:
    """Where standard output and standard error of a rank went, if that is a file of its own."""
    found: dict[Path, set[int | None]] = {}
    for box in run.boxes:
        for name in (box.error_file, box.output_file):
            if name:
                found.setdefault(Path(name), set()).add(box.rank)
    return {path: ranks.pop() if len(ranks) == 1 else None for path, ranks in found.items()}


def masked(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """As the recorder masks what is printed: quotes of these lines are kept in the run's folder."""
    text = "".join(f"{line}\n" for _, line in lines).encode("utf-8", "surrogateescape")
    masked, _ = OutputMasker(Masker()).feed(text)
    shown = masked.decode("utf-8", "surrogateescape").split("\n")
    return [(number, line) for (number, _), line in zip(lines, shown, strict=False)]


def _is_worth_it(run: RecordedRun, printed: TextEvidence) -> bool:
    outcome = run.info.outcome
    if "ray" in run.info.settings:
        return False  # its working folder is the job's, with the logs of everybody
    if outcome is None or outcome.kind == "ok" or not run.is_of_this_machine:
        return False
    if any(box.exception_type for box in run.boxes):
        return False
    return not any(
        o.kind == "traceback" and o.data.get("type") and not o.data.get("was_handled")
        for o in printed.observations
    )


def _has_a_reason(run: RecordedRun) -> bool:
    """Return whether the record says how the run failed: it hung, or native code crashed."""
    hung = run.info.outcome is not None and run.info.outcome.kind == "hang"
    return hung or bool(run.crashes)


def written_during(run: RecordedRun, known: Iterable[Path] = ()) -> list[tuple[Path, float]]:
    """Return logs with their times: what the processes had open, then what was found, newest first.

    A launcher's logs per rank may be anywhere, such as in a folder of its own below /tmp.
    """
    begin = run.info.started_unix
    elapsed = run.info.elapsed_seconds
    end = time.time() if elapsed is None else begin + elapsed + LATE_SECONDS
    below = itertools.islice(_logs_below(run.info.cwd), MOST_LOOKED_AT)
    found = {path: written for path, written in below if begin <= written <= end}
    for path in known:
        written = _last_written(path)
        if path not in found and written is not None and begin <= written <= end:
            found[path] = written
    own = set(known)
    return sorted(found.items(), key=lambda each: (each[0] not in own, -each[1]))


def _last_written(path: Path) -> float | None:
    """Return when a regular file that is not empty was last written."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) and status.st_size else None


def _logs_below(folder: str) -> Iterator[tuple[Path, float]]:
    looked_at = 0
    for place, folders, files in os.walk(folder):
        is_deep = place[len(folder) :].count(os.sep) >= MOST_DEPTH
        folders[:] = [] if is_deep else [name for name in folders if not name.startswith(".")]
        looked_at += len(files) + len(folders)
        for name in files:
            if _LOG.search(name):
                path = Path(place, name)
                if (written := _last_written(path)) is not None:
                    yield path, written
        if looked_at > MOST_LOOKED_AT:
            return
