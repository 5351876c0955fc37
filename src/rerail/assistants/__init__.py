"""What a coding assistant is given: the runs on record, read-only, and how to work with rerail.

`serve` speaks MCP on standard input and output; `tools` is what it offers; `skill_text` is the
Agent Skill of `rerail skill`. docs/assistants.md has the lines to type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.assistants.server import serve
    from rerail.assistants.skill_file import install_skill, skill_text

__all__ = ["install_skill", "serve", "skill_text"]

__getattr__ = door(
    __name__,
    {"install_skill": "skill_file", "serve": "server", "skill_text": "skill_file"},
)
