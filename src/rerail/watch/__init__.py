"""`rerail watch`: runs as they live, on a screen that is drawn again every two seconds.

`run_app(names, home)` shows them until the user leaves. Needs Textual (`rerail[watch]`); the
pictures come from `rerail.live` and `rerail.report`, this room only draws and takes keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.watch.app import run_app

__all__ = ["run_app"]

__getattr__ = door(__name__, {"run_app": "app"})
