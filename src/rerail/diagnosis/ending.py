"""Whether a run ended well: one rule for the list of runs, every screen and every message.

In: how the command ended, and what the diagnosis on record says. Out: `ok`; `failed`; or
`swallowed`, where the command says that all is well (exit code 0) and the record says otherwise: an
exception that was caught, a training that was told to stop, a framework that trained nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rerail.errors import RerailError
from rerail.records import Outcome
from rerail.store import RunFolder

if TYPE_CHECKING:
    from rerail.diagnosis.result import Diagnosis

Ending = Literal["ok", "swallowed", "failed"]

_OUTLIVED = ", although "  # the recorder saw a death inside the command, which went on
LIKELY = 0.5  # a cause that is less likely is no reason to doubt an exit code of 0
_READ_LINES = 400  # from the end of the output
# Words without which the output gives no reason to doubt that all went well.
_SOUNDS_BAD = (
    *("error", "exception", "traceback", "fail", "fatal", "critical", "abort", "out of memory"),
    *("sigterm", "sigint", "signal", "interrupt", "kill", "cancel", "preempt", "no space"),
    *("not found", "no such", "not finite", " nan", "=nan"),
)


def ending_of(outcome: Outcome | None, leading_probability: float | None) -> Ending:
    """Return how a run that is over ended; `outcome` is None where nobody saw its end."""
    if outcome is None or outcome.kind != "ok":
        return "failed"
    is_likely = (leading_probability or 0.0) >= LIKELY
    return "swallowed" if is_likely or _OUTLIVED in outcome.summary else "ok"


def ending_on_record(folder: RunFolder) -> Ending:
    """Return the same of a run that is over, from its folder."""
    from rerail.diagnosis.explain import diagnosis_on_record

    try:
        return ending_of(folder.info().outcome, leading_probability_of(diagnosis_on_record(folder)))
    except RerailError:
        return "failed"  # nobody can read how it ended


def ending_of_diagnosis(diagnosis: Diagnosis) -> Ending:
    """Return the same from a diagnosis alone."""
    return ending_of(diagnosis.outcome, leading_probability_of(diagnosis))


def leading_probability_of(diagnosis: Diagnosis | None) -> float | None:
    """Return how likely the first cause of a diagnosis is; None where there is none."""
    leading = diagnosis.leading if diagnosis is not None else None
    return leading.probability if leading is not None else None


def summary_of(outcome_summary: str, ending: Ending) -> str:
    """Return how the command ended, without the word "well" where that is not so."""
    if ending != "swallowed":
        return outcome_summary
    return outcome_summary.replace("ended well", "ended with exit code 0", 1)


def may_hide_a_failure(folder: RunFolder) -> bool:
    """Return whether a diagnosis of a run that ended with exit code 0 is worth its time."""
    if any(box.exception_type or box.first_nonfinite_step for box in folder.boxes()):
        return True
    lines = folder.output().tail(_READ_LINES)
    printed = b"\n".join(line.text for line in lines).decode("utf-8", "replace").lower()
    return any(word in printed for word in _SOUNDS_BAD)
