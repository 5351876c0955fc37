"""`rerail mcp`: the tools behind the Model Context Protocol, on standard input and output.

In: the home of the runs. Out: nothing until the client goes away. Promises: every tool is declared
read-only; what a user can act on is answered as an error of the tool, without a traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rerail import __version__
from rerail.assistants.tools import UNTRUSTED, Tools
from rerail.errors import RerailError, UsageError

INSTRUCTIONS = (
    "rerail records training runs and says why they died. Begin with `explain`. Probabilities are"
    " estimates; a cause is confirmed by `rerail isolate` and a fix proven by `rerail verify`, both"
    " of which run the user's program: ask before you run them. " + UNTRUSTED
)


def serve(home: Path | None) -> None:
    """Until the client closes its end."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError:
        raise UsageError(
            "the MCP server needs the package mcp", "pip install 'rerail[mcp]'"
        ) from None
    server = MCPServer(
        "rerail", instructions=INSTRUCTIONS, version=__version__, log_level="CRITICAL"
    )
    harmless = ToolAnnotations(
        read_only_hint=True,
        destructive_hint=False,
        idempotent_hint=True,
        open_world_hint=False,
    )
    for tool in Tools(home).all():
        server.tool(annotations=harmless, structured_output=False)(_told(tool, ToolError))
    server.run("stdio")


def _told(
    tool: Callable[..., dict[str, Any]], tool_error: type[Exception]
) -> Callable[..., dict[str, Any]]:
    """What can be acted on reaches the model in its own words; anything else is hidden by mcp."""

    @functools.wraps(tool)
    def call(*args: Any, **options: Any) -> dict[str, Any]:
        try:
            return tool(*args, **options)
        except RerailError as error:
            raise tool_error(" ".join([error.message, error.help_text]).strip()) from None

    return call
