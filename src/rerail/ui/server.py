"""Serving the pages until Ctrl-C.

In: the settings. Out: nothing; `announce` is told the address as soon as somebody can open it.
Promises: the port is taken before it is announced; Ctrl-C ends the server within a second or two,
whoever still watches.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import uvicorn

from rerail.errors import UsageError
from rerail.ui.app import make_app
from rerail.ui.settings import MOST_CONNECTIONS, UiSettings

_BACKLOG = 128


def serve(settings: UiSettings, announce: Callable[[str, UiSettings], None]) -> None:
    """Serve until a signal ends it. UsageError if the port cannot be had."""
    taken = _take_port(settings)
    settings = replace(settings, port=taken.getsockname()[1])
    app = make_app(settings)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=32 << 10,
        ws="websockets-sansio",
        ws_max_size=4096,
        ws_max_queue=4,
        ws_per_message_deflate=False,
        ws_ping_interval=30.0,
    )
    # The first list of many runs takes a while: it is made while somebody copies the address.
    threading.Thread(target=app.prepare, daemon=True).start()
    server = _Server(config, lambda: announce(address_of(settings), settings))
    try:
        asyncio.run(server.serve(sockets=[taken]))
    except KeyboardInterrupt:
        pass  # uvicorn raises it again once everything is closed
    finally:
        taken.close()


def address_of(settings: UiSettings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{host}:{settings.port}/?token={settings.token}"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def _take_port(settings: UiSettings) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        taken = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"cannot listen on {settings.host}: {error.strerror}") from None
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(place)
        taken.listen(_BACKLOG)
        taken.setblocking(False)
        return taken
    except OSError as error:
        taken.close()
        help_text = "Another `rerail ui` may run there. Choose another with --port, or 0 for any."
        is_taken = error.errno == errno.EADDRINUSE
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}",
            help_text if is_taken else "",
        ) from None
