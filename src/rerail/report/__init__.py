"""What a person reads of a run: the terminal's answer, the HTML page, the package to send.

`build_report` makes the document that `html.render` and `markdown.render` write and that
`package.pack` masks and packs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rerail.report.document import Document
    from rerail.store import RunFolder

__all__ = ["build_report", "diagnosis_of"]


def build_report(folder: RunFolder, history: Sequence[RunFolder] = ()) -> Document:
    """The report of a run, with the diagnosis on record or a new one."""
    from rerail.report.view import build_document

    return build_document(folder, diagnosis_of(folder, history))


def diagnosis_of(folder: RunFolder, history: Sequence[RunFolder] = ()) -> dict[str, Any]:
    """`diagnosis.json` of the run, or what it would say if nobody has explained the run yet."""
    from rerail.errors import UnreadableInput

    try:
        document = folder.diagnosis()
    except UnreadableInput:
        document = {}  # damaged: the evidence is still there to be read anew
    if document:
        return document
    from rerail.diagnosis import diagnose
    from rerail.evidence.run_collect import collect_run

    return diagnose(collect_run(folder, history), command=folder.info().command).to_json()
