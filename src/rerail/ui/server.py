"""Serving the pages until Ctrl-C.

In: the settings. Out: nothing; `announce` is told the address as soon as somebody can open it.
Promises: the port is taken before it is announced, on loopback for IPv4 and for IPv6, so that no
other server of this machine is behind the same address; Ctrl-C ends the server within a second or
two, whoever still watches.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import uvicorn

from rerail.errors import UsageError
from rerail.ui.app import make_app
from rerail.ui.connections import BoundedProtocol
from rerail.ui.opening import OpeningFile
from rerail.ui.settings import MOST_CONNECTIONS, UiSettings

_BACKLOG = 128
_MOST_TRIES = 20  # for a free port that is free on both loopback addresses
_IS_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # a machine without IPv6, or without IPv4


def serve(
    settings: UiSettings, announce: Callable[[str, UiSettings], None], *, opens: bool = False
) -> None:
    """Serve until a signal ends it. UsageError if the port cannot be had."""
    taken = _take_ports(settings)
    settings = replace(settings, port=taken[0].getsockname()[1])
    app = make_app(settings)
    opening = OpeningFile()
    app.when_let_in = opening.remove
    protocol: Any = functools.partial(BoundedProtocol, waiting={})
    config = uvicorn.Config(
        app,
        http=protocol,
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

    def begin() -> None:
        if opens:  # before `announce`, which lowers the priority that the browser would inherit
            opening.open_browser(address_of(settings))
        announce(address_of(settings), settings)

    server = _Server(config, begin, opening.remove)
    try:
        asyncio.run(server.serve(sockets=taken))
    except KeyboardInterrupt:
        pass  # uvicorn raises it again once everything is closed
    finally:
        opening.remove()
        _close(taken)


def address_of(settings: UiSettings) -> str:
    """The address to open: on this machine under a name that no other server can guess."""
    host = settings.name if settings.is_local else _shown_host(settings)
    return f"http://{host}:{settings.port}/?token={settings.token}"


def plain_address_of(settings: UiSettings) -> str:
    """The address without that name and without the token, for scripts and other browsers."""
    return f"http://{_shown_host(settings)}:{settings.port}/"


def _shown_host(settings: UiSettings) -> str:
    if settings.host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{settings.host}]" if ":" in settings.host else settings.host


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, announce: Callable[[], None], clean: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._clean = clean

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._clean()  # here as well: after SIGTERM uvicorn ends the process with that signal
        await super().shutdown(sockets)


def _take_ports(settings: UiSettings) -> list[socket.socket]:
    """Listen on the address; on loopback on 127.0.0.1 and on ::1.

    Browsers resolve the name of the pages to both, and try ::1 first. If only one was taken,
    another user could listen on the other and would be sent the token.
    """
    if not settings.is_local:
        return [_take_port(settings.host, settings.port)]
    for tries_left in reversed(range(_MOST_TRIES)):
        first = _take_port(settings.host, settings.port)
        other = "127.0.0.1" if first.family == socket.AF_INET6 else "::1"
        try:
            return [first, _take_port(other, first.getsockname()[1])]
        except _Absent:
            return [first]
        except UsageError:
            first.close()
            if settings.port or not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


class _Absent(UsageError):
    """This machine does not have such an address."""


def _take_port(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        taken = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _Absent(f"cannot listen on {host}: {error.strerror}") from None
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::1":
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(place)
        taken.listen(_BACKLOG)
        taken.setblocking(False)
        return taken
    except OSError as error:
        taken.close()
        help_text = "Another `rerail ui` may run there. Choose another with --port, or 0 for any."
        is_taken = error.errno == errno.EADDRINUSE
        kind_of_error = _Absent if error.errno in _IS_ABSENT else UsageError
        raise kind_of_error(
            f"cannot listen on {host} port {port}: {error.strerror}",
            help_text if is_taken else "",
        ) from None


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()
