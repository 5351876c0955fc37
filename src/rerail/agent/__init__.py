"""The door of the agent: what the command's environment must get for the agent to come in.

`inject` names the variables (the recorder writes each into the record), `ask_for_stacks` asks a
process that has the agent for its Python stacks. Nothing here touches the user's process by
itself; what runs inside it is agent/stub and agent/native, and imports nothing of rerail.
"""

from __future__ import annotations

from rerail.agent.injection import Injection, inject, native_library
from rerail.agent.request import ask_for_stacks

__all__ = ["Injection", "ask_for_stacks", "inject", "native_library"]
