"""Connections that do not send a request do not keep others out.

In: the connections of the server. Out: the same; one that has sent no whole request is closed after
REQUEST_SECONDS, and when more than MOST_WAITING wait, the one that has waited longest is closed.
Promises: however many connections a stranger opens, a new connection that sends its request at once
is answered. A request without the token ends its connection (`access.Guard`), so that a stranger
cannot hold one after the request either.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from rerail.ui.settings import MOST_WAITING, REQUEST_SECONDS


class BoundedProtocol(H11Protocol):
    """HTTP on one connection. `waiting` holds those without a request, the oldest first."""

    def __init__(
        self,
        *arguments: Any,
        waiting: dict[BoundedProtocol, None],
        request_seconds: float = REQUEST_SECONDS,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._waiting = waiting
        self._request_seconds = request_seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        while len(self._waiting) >= MOST_WAITING:
            next(iter(self._waiting)).give_up()
        self._waiting[self] = None
        self._deadline = self.loop.call_later(self._request_seconds, self.give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.scope is not None:  # the head of a request is complete
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close a connection that has sent no request."""
        self._stop_waiting()
        self.transport.abort()

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
