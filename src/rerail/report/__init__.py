"""What a person reads of a run: the terminal's answer, the HTML page, the package to send.

`build_report` makes the document that `html.render` and `markdown.render` write and that
`package.pack` masks and packs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.report import (
        cause_page,
        experiments,
        html,
        live,
        live_memory,
        live_progress,
        live_screen,
        markdown,
        run_list,
        stacks_now,
        terminal,
    )
    from rerail.report.build import build_report
    from rerail.report.document import Document
    from rerail.report.masked_run import MaskedOutput, masked_line
    from rerail.report.package import pack
    from rerail.report.page_parts import page_top, redactor_of, training_charts
    from rerail.report.stall_stacks import stall_stack_lines
    from rerail.report.writing import PRIVATE_MODE, SHARED_MODE, write_file

__all__ = [
    "PRIVATE_MODE",
    "SHARED_MODE",
    "Document",
    "MaskedOutput",
    "build_report",
    "cause_page",
    "experiments",
    "html",
    "live",
    "live_memory",
    "live_progress",
    "live_screen",
    "markdown",
    "masked_line",
    "pack",
    "page_top",
    "redactor_of",
    "run_list",
    "stacks_now",
    "stall_stack_lines",
    "terminal",
    "training_charts",
    "write_file",
]

__getattr__ = door(
    __name__,
    {
        "Document": "document",
        "MaskedOutput": "masked_run",
        "PRIVATE_MODE": "writing",
        "SHARED_MODE": "writing",
        "build_report": "build",
        "cause_page": "cause_page",
        "experiments": "experiments",
        "html": "html",
        "live": "live",
        "live_memory": "live_memory",
        "live_progress": "live_progress",
        "live_screen": "live_screen",
        "markdown": "markdown",
        "masked_line": "masked_run",
        "pack": "package",
        "page_top": "page_parts",
        "redactor_of": "page_parts",
        "run_list": "run_list",
        "stacks_now": "stacks_now",
        "stall_stack_lines": "stall_stacks",
        "terminal": "terminal",
        "training_charts": "page_parts",
        "write_file": "writing",
    },
)
