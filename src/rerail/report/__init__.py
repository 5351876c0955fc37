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
        html,
        live,
        live_screen,
        markdown,
        run_list,
        stacks_now,
        stopped_trial,
        terminal,
    )
    from rerail.report.build import build_report
    from rerail.report.package import pack
    from rerail.report.stall_stacks import stall_stack_lines
    from rerail.report.writing import PRIVATE_MODE, SHARED_MODE, write_file

__all__ = [
    "PRIVATE_MODE",
    "SHARED_MODE",
    "build_report",
    "cause_page",
    "html",
    "live",
    "live_screen",
    "markdown",
    "pack",
    "run_list",
    "stacks_now",
    "stall_stack_lines",
    "stopped_trial",
    "terminal",
    "write_file",
]

__getattr__ = door(
    __name__,
    {
        "PRIVATE_MODE": "writing",
        "SHARED_MODE": "writing",
        "build_report": "build",
        "cause_page": "cause_page",
        "html": "html",
        "live": "live",
        "live_screen": "live_screen",
        "markdown": "markdown",
        "pack": "package",
        "run_list": "run_list",
        "stacks_now": "stacks_now",
        "stall_stack_lines": "stall_stacks",
        "stopped_trial": "stopped_trial",
        "terminal": "terminal",
        "write_file": "writing",
    },
)
