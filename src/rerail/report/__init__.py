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
        live_screen,
        markdown,
        run_list,
        run_table,
        stacks_now,
        stopped_trial,
        terminal,
    )
    from rerail.report.build import build_report
    from rerail.report.document import Document
    from rerail.report.ended_metrics import last_metrics
    from rerail.report.ending_line import finish_line, last_step_and_loss
    from rerail.report.job_summary import step_summary
    from rerail.report.masked_run import (
        MaskedOutput,
        learn_diagnosis,
        masked_diagnosis,
        masked_line,
    )
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
    "finish_line",
    "html",
    "last_metrics",
    "last_step_and_loss",
    "learn_diagnosis",
    "live_screen",
    "markdown",
    "masked_diagnosis",
    "masked_line",
    "pack",
    "page_top",
    "rank_page",
    "redactor_of",
    "run_list",
    "run_table",
    "stacks_now",
    "stall_stack_lines",
    "step_summary",
    "stopped_trial",
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
        "finish_line": "ending_line",
        "html": "html",
        "last_metrics": "ended_metrics",
        "last_step_and_loss": "ending_line",
        "experiments": "experiments",
        "learn_diagnosis": "masked_run",
        "live_screen": "live_screen",
        "markdown": "markdown",
        "masked_diagnosis": "masked_run",
        "masked_line": "masked_run",
        "pack": "package",
        "page_top": "page_parts",
        "rank_page": "rank_page",
        "redactor_of": "page_parts",
        "run_list": "run_list",
        "run_table": "run_table",
        "stacks_now": "stacks_now",
        "stall_stack_lines": "stall_stacks",
        "step_summary": "job_summary",
        "stopped_trial": "stopped_trial",
        "terminal": "terminal",
        "training_charts": "page_parts",
        "write_file": "writing",
    },
)
