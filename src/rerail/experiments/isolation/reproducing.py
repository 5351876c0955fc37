"""The smallest command that still fails, looked for when the investigation has ended.

In: the session and its document. Out: the document's `reproducer`, and the folder that was asked
for. An interruption keeps the answer that is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerail.errors import UsageError
from rerail.experiments.reproducer.build import make_reproducer
from rerail.experiments.reproducer.reduction import Reduction
from rerail.scheduling import open_scheduler

if TYPE_CHECKING:
    from rerail.experiments.isolation.session import InvestigationSession


def reproduce(session: InvestigationSession, document: dict[str, Any], folder: Path) -> bool:
    """Whether there is anything to keep."""
    if session.journal.failure is None:
        session.watcher.said("no reproducer: the failure was not seen")
        return False
    scheduler = open_scheduler(session.options.scheduler)
    # An investigation that used the budget up leaves as much again: without any, nothing
    # smaller could be tried.
    left, whole = session.seconds_left, session.options.budget_seconds
    reduction = Reduction(
        session.judge,
        scheduler,
        session.store,
        session.environ,
        session.cwd,
        left if left > 0.0 else whole,
        session.stall_seconds(),
        session.watcher.said,
        session.setup,
    )
    try:
        document["reproducer"] = make_reproducer(reduction, folder)
    except KeyboardInterrupt:
        document["ended_because"] = "interrupted"
    except UsageError as error:  # nobody allowed runs that write where the command writes
        session.watcher.said(f"no reproducer: {error.message}")
        return False
    finally:
        scheduler.close()
    return True
