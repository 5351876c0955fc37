"""What became of the record: where it is, what it lacks, and why.

In: a recording, and the home that it was meant for. Out: sentences for the person who started it.
Promises: no path that does not exist; a record elsewhere than asked is named; each reason once.
"""

from __future__ import annotations

from pathlib import Path

from rerail.recorder import Recording
from rerail.store import NO_FOLDER, layout


def is_readable(recording: Recording) -> bool:
    """Whether there is a record that says how the command ended."""
    is_closed = layout.RUN not in dict(recording.missing)
    return is_closed and recording.store_answers and (recording.folder / layout.RUN).is_file()


def about_record(recording: Recording, home: Path) -> list[str]:
    """Nothing to say of a record that is whole and where it belongs."""
    if not recording.store_answers:
        return [
            f"the record in {recording.folder} is not complete: nothing could be written for 10 s;",
            f"its disk may hang; when it answers, ask: rerail explain {recording.folder.name}",
        ]
    homes = [(what, why) for what, why in recording.missing if what.startswith(NO_FOLDER)]
    refused = "; ".join(
        f"{what.removeprefix(NO_FOLDER)} could not be written ({why})" for what, why in homes
    )
    if not recording.folder.is_dir():
        if refused:
            return [f"there is no record of this run: {refused}"]
        return [f"there is no record of this run: {recording.folder} was removed while it ran"]
    said = []
    if not recording.folder.is_relative_to(home):
        said.append(f"the record is in {recording.folder}: {refused or f'{home} is not used'}")
    elif not is_readable(recording):
        said.append(f"the record in {recording.folder} is incomplete")
    reasons: dict[str, list[str]] = {}
    for what, why in recording.missing:
        if (what, why) not in homes:
            reasons.setdefault(why, []).append(what)
    said += [f"the record lacks {', '.join(whats)}: {why}" for why, whats in reasons.items()]
    return said
