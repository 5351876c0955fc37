"""What a tracker is told of a death: the cause, the headline, the report; masked as a package is.

In: a run folder and its store. Out: `Material`. Promises: everything in it went through the masks
of `rerail pack`, secrets and personal names, because a tracker is read by others than the store.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rerail.api import Run
from rerail.privacy import Redactor
from rerail.report import pack
from rerail.store import RunFolder, Store

_MOST_TEXT = 4000  # MLflow refuses a tag of more than 5,000 characters, by its own table 8,000
_REPORTS = ("report.md", "report.html")
# As MLflow's own words have it: a run that was ended from outside was killed, not failed.
_ENDED_BY_SOMEBODY = ("SIGINT", "SIGTERM", "SIGHUP")
_EXIT_CODES_OF_THESE = (130, 143, 129)
_WANDB_INTERRUPTED = 255


@dataclass(frozen=True)
class Material:
    texts: dict[str, str]  # cause, headline, run
    reports: dict[str, bytes]
    was_ended_by_somebody: bool
    exit_code: int
    started_unix: float
    elapsed_seconds: float
    last_step: int
    redactor: Redactor

    @property
    def ended_unix(self) -> float:
        return self.started_unix + self.elapsed_seconds


def compose(folder: RunFolder, store: Store) -> Material:
    info = folder.info()
    diagnosis = Run(folder.path, store).diagnosis
    package = pack(folder, diagnosis)
    files, masked = dict(package.files), package.diagnosis
    signal, code = diagnosis.outcome.signal, diagnosis.outcome.exit_code
    is_somebody = signal in _ENDED_BY_SOMEBODY or code in _EXIT_CODES_OF_THESE
    elapsed = info.elapsed_seconds
    step = diagnosis.facts.get("last_step")
    return Material(
        texts={
            "cause": masked.leading.id if masked.leading else "unknown",
            "headline": masked.headline[:_MOST_TEXT],
            "run": folder.id,
        },
        reports={name: files[name] for name in _REPORTS},
        was_ended_by_somebody=is_somebody,
        exit_code=_WANDB_INTERRUPTED if is_somebody else code or 1,
        started_unix=info.started_unix,
        elapsed_seconds=time.time() - info.started_unix if elapsed is None else elapsed,
        last_step=step if isinstance(step, int) and step > 0 else 0,
        redactor=_redactor(folder),
    )


def _redactor(folder: RunFolder) -> Redactor:
    """For what a tracker's own library says went wrong."""
    redactor = Redactor(folder.private().secrets)
    redactor.finish_learning()
    return redactor
