"""Show runs, evidence and causes to a coding assistant, read-only (Model Context Protocol)."""

from __future__ import annotations

from pathlib import Path

import click

from rerail.cli._options import home_option


@click.command(name="mcp", epilog="Example: rerail mcp --home .rerail")
@home_option
def command(home: Path | None) -> int:
    """Serve the runs on record to a coding assistant, on standard input and output.

    The assistant starts this by itself, once it is told the command. Its tools only read: runs,
    explain, output, stacks, vitals, check, causes. Needs pip install 'rerail[mcp]'.
    """
    from rerail.assistants import serve

    serve(home)
    return 0
