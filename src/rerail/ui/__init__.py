"""The runs on record in the browser: pages over the store, served on this machine alone.

`make_app(settings)` is the ASGI application, `serve(settings)` runs it until Ctrl-C. Everything
here reads the store and nothing writes to it, but for the index that every reader of it fills.
Needs the extra `rerail[ui]`. docs/ui.md has the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.ui.app import make_app
    from rerail.ui.server import plain_address_of, serve
    from rerail.ui.settings import UiSettings

__all__ = ["UiSettings", "make_app", "plain_address_of", "serve"]

__getattr__ = door(
    __name__,
    {
        "UiSettings": "settings",
        "make_app": "app",
        "plain_address_of": "server",
        "serve": "server",
    },
)
