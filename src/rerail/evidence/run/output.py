"""What the text of a run's output shows, read by the same readers as any log.

In: a run folder. Out: `TextEvidence` with the true line numbers of the output. Bounded in memory
whatever the command printed: of each large segment only what `scan` finds worth reading is kept.
"""

from __future__ import annotations

from rerail.catalogue import load_catalogue
from rerail.errors import UnreadableInput
from rerail.evidence.text.logs import observe_text, search_words
from rerail.evidence.text.observing import TextEvidence
from rerail.evidence.text.scan import excerpt_of
from rerail.platform.deadline import Deadline
from rerail.store import RunFolder, find_segments


def observe_output(folder: RunFolder, deadline: Deadline) -> TextEvidence:
    words = search_words(load_catalogue())
    numbered: list[tuple[int, str]] = []
    for segment in find_segments(folder.path):
        try:
            with segment.open() as file:
                excerpt = excerpt_of(file, segment.path.name, words, deadline=deadline)
        except (UnreadableInput, OSError):
            continue  # empty, or a command that prints binary data: nothing to say about text
        numbered += [(number + segment.line - 1, text) for number, text in excerpt.lines]
    return observe_text(numbered, deadline)
