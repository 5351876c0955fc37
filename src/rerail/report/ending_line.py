"""The one line that follows a run that ended well: how long it took and how far it came.

In: the folder of the run. Out: "finished after 39 s, step 1,878, loss 0.97 · run 4854". What the
program printed goes before what was counted, since that is the number that its user knows.
"""

from __future__ import annotations

from pathlib import Path

from rerail.store import RunFolder
from rerail.wording import duration_in_words


def finish_line(path: Path) -> str:
    folder = RunFolder(path)
    elapsed = folder.info().elapsed_seconds
    step, loss = last_step_and_loss(folder)
    said = ["finished" if elapsed is None else f"finished after {duration_in_words(elapsed)}"]
    said += [f"step {step:,}"] if step else []
    said += [f"loss {loss:.3g}"] if loss is not None else []
    return f"{', '.join(said)} · run {folder.id.rpartition('-')[2]}"


def last_step_and_loss(folder: RunFolder) -> tuple[int | None, float | None]:
    """How far it has come, as its user counts; None for what it does not say."""
    from rerail.live import build, take_snapshot

    view = build(take_snapshot(folder))
    return view.progress.steps if view.progress else None, view.loss.latest if view.loss else None
