"""rerail in other people's trainers and notebooks: callbacks and a notebook extension.

Take `rerail.integrations.lightning`, `rerail.integrations.huggingface`, or `%load_ext rerail`,
which calls `load_into`. Each imports the package that it is for, and only when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.integrations.notebook import load_into

__all__ = ["load_into"]

__getattr__ = door(__name__, {"load_into": "notebook"})
