"""The door of the agent: what the command's environment must get for the agent to come in.

`inject` names the variables (the recorder writes each into the record) and says what will be
missing. Nothing here touches the user's process by itself; what runs inside it is agent/stub and
agent/native, and those import nothing of rerail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.agent.injection import STUB, Injection, inject, native_library
    from rerail.agent.preload import preloadable
    from rerail.agent.stub import rerail_layout

__all__ = [
    "STUB",
    "Injection",
    "inject",
    "native_library",
    "preloadable",
    "rerail_layout",
]

__getattr__ = door(
    __name__,
    {
        "Injection": "injection",
        "STUB": "injection",
        "inject": "injection",
        "native_library": "injection",
        "preloadable": "preload",
        "rerail_layout": "stub.rerail_layout",
    },
)
