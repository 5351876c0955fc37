"""What a person reads of a run: the terminal's answer, the HTML page, the package to send.

`build_report` makes the document that `html.render` and `markdown.render` write and that
`package.pack` masks and packs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rerail.report.document import Document
    from rerail.store import RunFolder

__all__ = ["build_report"]


def build_report(folder: RunFolder, history: Sequence[RunFolder] = ()) -> Document:
    """The report of a run, with the diagnosis on record or a new one."""
    from rerail.diagnosis import answer_on_record
    from rerail.report.view import build_document

    return build_document(folder, answer_on_record(folder, history))
