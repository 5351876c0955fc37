"""What the list of runs needs of each run, read from its folder or from the index.

In: a run folder, or the text that the index keeps of it. Out: `RunSummary`. Promises: whatever a
folder holds, a text that is listed is bounded and of the type that it should be.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerail.bounded import Count, Share
from rerail.errors import RerailError
from rerail.records import RunInfo
from rerail.store.codec import DecodeError, decode, decoder_of, dumps, fits, loads
from rerail.store.progress import progress_on_record
from rerail.store.sizes import folder_bytes

if TYPE_CHECKING:
    from rerail.store.folder import RunFolder

_CAUSE = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")  # the id of one
_LONGEST_HEADLINE = 400
_SHARE, _STEP = decoder_of(Share), decoder_of(Count)


@dataclass(frozen=True)
class RunSummary:
    """One row of the list of runs."""

    info: RunInfo
    path: Path
    size_bytes: int
    leading_cause: str | None
    leading_probability: float | None
    headline: str | None = None  # of the diagnosis on record
    last_step: int | None = None


def read_summary(folder: RunFolder) -> RunSummary:
    # Its name in the store is what it answers to, whatever a copied run.json says.
    info = dataclasses.replace(folder.info(), id=folder.id)
    try:
        diagnosis: Any = folder.diagnosis()
    except RerailError:
        diagnosis = {}  # the run itself can be read
    leading = _first(_of(diagnosis, "causes"))
    step = _of(_of(diagnosis, "facts"), "last_step")
    return _summary(
        info,
        folder.path,
        folder_bytes(folder.path),
        _of(leading, "id"),
        _of(leading, "probability"),
        _of(diagnosis, "headline"),
        _step_on_record(folder) if step is None else step,
    )


def to_row(summary: RunSummary) -> str:
    return dumps(
        [
            summary.info,
            summary.leading_cause,
            summary.leading_probability,
            summary.headline,
            summary.last_step,
        ]
    )


def from_row(path: Path, text: str, size_bytes: int) -> RunSummary | None:
    """None where the row is damaged, or of a rerail that kept less."""
    try:
        value, cause, probability, headline, step = loads(text)
        info = decode(RunInfo, value)
    except (DecodeError, TypeError, ValueError):
        return None
    if info.id != path.name:
        return None
    return _summary(info, path, size_bytes, cause, probability, headline, step)


def _summary(
    info: RunInfo,
    path: Path,
    size_bytes: int,
    cause: Any,
    probability: Any,
    headline: Any,
    step: Any,
) -> RunSummary:
    return RunSummary(
        info=info,
        path=path,
        size_bytes=size_bytes,
        leading_cause=cause if isinstance(cause, str) and _CAUSE.fullmatch(cause) else None,
        leading_probability=float(probability) if fits(_SHARE, probability) else None,
        headline=headline[:_LONGEST_HEADLINE] if isinstance(headline, str) and headline else None,
        last_step=step if step and fits(_STEP, step) else None,
    )


def _step_on_record(folder: RunFolder) -> int | None:
    """How far a run came that nobody has explained."""
    try:
        boxes, printed = folder.boxes(), folder.last_printed()
        step = progress_on_record(boxes, folder.processes(), printed).step
    except RerailError:
        return None
    if step is not None:
        return step
    return max((box.batches for box in boxes), default=0) or (printed.steps if printed else None)


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None
