"""Why a worker of Ray died, asked in the driver: from the worker's own record.

In: what Ray raised, or nothing. Out: the `Diagnosis` of the worker that it is about. Ray's own
words for a dead actor are "unexpected system error" and three guesses; the record has the signal or
the exit code, the line of the user's code, the memory, and what Ray's memory monitor did.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rerail.errors import UnknownRun
from rerail.evidence import OF_RAY, pids_in, who_failed_first, words_of_ray, workers_in
from rerail.store import RunFolder, Store, find_home, layout

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

PATIENCE_SECONDS = 5.0  # a recorder writes the end of its run while the driver hears of it
_POLL_SECONDS = 0.05
_MOST_CAUSES = 20

_told: set[str] = set()  # jobs of this process whose deaths are told


def home_of_workers(home: str | os.PathLike[str] | None, *, for_reading: bool) -> Path:
    """What was said, else the store that holds the record of this driver, else that of the folder.

    The answer to the driver's end then finds the workers: `evidence/run/ray_driver.py`.
    """
    agent = os.environ.get("RERAIL_AGENT")  # of `rerail run -- python driver.py`: RUN/agent
    runs_of_driver = Path(agent).parent.parent if agent and home is None else None
    if runs_of_driver is not None and runs_of_driver.name == layout.RUNS:
        return runs_of_driver.parent
    return find_home(home, for_reading=for_reading)


def runs(*, home: str | os.PathLike[str] | None = None, job: str | None = None) -> list[RunFolder]:
    """The workers on record, oldest first; of one call of `runtime_env` if `job` names it."""
    return workers_in(home_of_workers(home, for_reading=True), job)


def explain(
    error: BaseException | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    job: str | None = None,
) -> Diagnosis:
    """Why the worker died that `error` is about; without an error, the one that failed first.

    UnknownRun where none of them failed, or none is on record here.
    """
    from rerail.diagnosis import explain_run

    store = Store(home_of_workers(home, for_reading=True))
    pids = _pids(error) if error is not None else []
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        workers = runs(home=store.home, job=job)
        chosen = who_failed_first(workers, pids)
        is_late = time.monotonic() > until
        is_over = chosen is not None and chosen.info().state != "running"
        if chosen is not None and is_over and (is_late or words_of_ray(chosen)):
            return explain_run(chosen, store.history(chosen.info()), keeps=True)
        if is_late:
            break
        time.sleep(_POLL_SECONDS)
    raise UnknownRun(
        "no worker of Ray that failed is on record" + (f" as pid {pids[0]}" if pids else ""),
        f"`rerail runs --home {store.home}` lists those that are.",
    )


def _pids(error: BaseException) -> list[int]:
    return pids_in(str(each) for each in _with_causes(error))


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if each is None:
            return
        yield each
        each = each.__cause__ or each.__context__


def tell_of_deaths(home: Path, job: str) -> None:
    """When this program dies of an exception of Ray's, say below it why the worker died."""
    if job in _told:
        return
    _told.add(job)
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        before(kind, error, traceback)
        if any(type(each).__module__.startswith(OF_RAY) for each in _with_causes(error)):
            _tell(error, home, job)

    sys.excepthook = hook


def _tell(error: BaseException, home: Path, job: str) -> None:
    try:
        sys.stderr.write(f"\nrerail: {explain(error, home=home, job=job).headline}\n")
        sys.stderr.write(f"rerail: the workers' records: rerail runs --home {home}\n")
        sys.stderr.flush()
    except Exception:  # no record, no room, no terminal: Ray's own words stand above
        return
