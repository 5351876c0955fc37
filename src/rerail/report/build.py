"""The report of a run, as the document that pages and packages are written from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rerail.report.document import Document
    from rerail.store import RunFolder


def build_report(folder: RunFolder, history: Sequence[RunFolder] = ()) -> Document:
    """The report of a run, with the diagnosis on record or a new one."""
    from rerail.diagnosis import answer_on_record
    from rerail.report.view import build_document

    return build_document(folder, answer_on_record(folder, history))
