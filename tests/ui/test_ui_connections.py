"""Strangers who connect and send nothing do not keep the owner out."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvicorn
from ui_server import UiServer
from uvicorn.server import ServerState

from rerail.ui import UiSettings, make_app
from rerail.ui.connections import BoundedProtocol
from rerail.ui.settings import MOST_CONNECTIONS


def test_the_owner_gets_in_past_half_open_connections(server: UiServer) -> None:
    with ExitStack() as stack:
        for at in range(MOST_CONNECTIONS + 20):
            place = (server.host, server.port)
            stranger = stack.enter_context(socket.create_connection(place, timeout=180))
            if at % 2:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(3):
            assert server.get("/runs.json")[0] == 200


def test_a_connection_without_a_request_is_closed(tmp_path: Path) -> None:
    async def wait_for_the_end() -> bytes:
        config = uvicorn.Config(make_app(UiSettings(tmp_path, port=1)), lifespan="off")
        config.load()
        state = ServerState()
        waiting: dict[BoundedProtocol, None] = {}

        def protocol() -> BoundedProtocol:
            return BoundedProtocol(config, state, {}, waiting=waiting, request_seconds=0.05)

        loop = asyncio.get_running_loop()
        listener = await loop.create_server(protocol, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HT")
            try:
                ended = await asyncio.wait_for(reader.read(), 180)
            except ConnectionResetError:
                ended = b""
            writer.close()
        assert waiting == {} and not state.connections
        return ended

    assert asyncio.run(wait_for_the_end()) == b""


def test_a_refused_connection_is_closed(server: UiServer) -> None:
    with socket.create_connection((server.host, server.port), timeout=180) as stranger:
        head = f"GET /runs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        stranger.sendall(head.encode())
        answer = b""
        while part := stranger.recv(1 << 16):
            answer += part
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_the_default_port_is_left_out_of_the_name(tmp_path: Path) -> None:
    """Browsers say `Host: localhost` for port 80, and then for that port alone."""
    bearer = "Bearer token"
    for port, host, wanted in (
        (80, "localhost", 200),
        (80, "127.0.0.1", 200),
        (80, "[::1]", 200),
        (80, "localhost:80", 200),
        (80, "evil.example", 421),
        (7373, "localhost", 421),
        (7373, "[::1]", 421),
        (7373, "[::1]:7373", 200),
        (7373, ":7373", 421),
    ):
        settings = UiSettings(tmp_path, port=port, token="token")
        assert _status(make_app(settings), host, bearer) == wanted, (port, host)


def _status(app: Any, host: str, authorization: str) -> int:
    """The status of one request to the application itself: port 80 needs root."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", host.encode()), (b"authorization", authorization.encode())]
    scope = {"type": "http", "method": "GET", "path": "/openapi.json", "headers": headers}
    scope |= {"raw_path": b"/openapi.json", "query_string": b"", "root_path": ""}
    asyncio.run(app({**scope, "scheme": "http", "http_version": "1.1"}, receive, send))
    return int(sent[0]["status"])
