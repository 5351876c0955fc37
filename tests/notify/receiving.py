"""Real receivers on loopback: a web server that answers well or badly, a mail server, chats.

Each keeps what it was sent. The chats are reached as they are in the world, by their own names over
TLS: a proxy on loopback plays all of them, with certificates of an authority made for the test.
"""

from __future__ import annotations

import json
import os
import queue
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rerail.store import RunFolder, Store

GUARD_SECONDS = 180  # far more than anything here takes


@dataclass
class Sent:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.raw)

    @property
    def text(self) -> str:
        return str(self.document["text"])


@dataclass
class Receiving:
    url: str
    arrived: queue.Queue[Sent] = field(default_factory=queue.Queue)

    def next(self) -> Sent:
        return self.arrived.get(timeout=GUARD_SECONDS)

    def all(self) -> list[Sent]:
        return [self.arrived.get() for _ in range(self.arrived.qsize())]


Answer = Callable[[BaseHTTPRequestHandler], None]


def well(handler: BaseHTTPRequestHandler) -> None:
    respond(handler, 200, b"{}")


def with_status(status: int, headers: Mapping[str, str] | None = None) -> Answer:
    return lambda handler: respond(handler, status, b"", headers)


def respond(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    handler.send_response(status)
    for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def without_end(handler: BaseHTTPRequestHandler) -> None:
    """An answer of gigabytes, until somebody hangs up."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * (1 << 16))
    except OSError:
        pass


@contextmanager
def web_server(answer: Answer = well) -> Iterator[Receiving]:
    released = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept.arrived.put(Sent(self.path, dict(self.headers.items()), raw))
            if answer is never:
                released.wait(GUARD_SECONDS)
            else:
                answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # it hung up

    server = Server(("127.0.0.1", 0), Handler)
    kept = Receiving(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kept
    finally:
        released.set()
        server.shutdown()
        server.server_close()


def never(handler: BaseHTTPRequestHandler) -> None:
    """Takes the message, and says nothing for as long as the server lives."""
    raise AssertionError("the server waits instead")


@contextmanager
def chats(folder: Path) -> Iterator[tuple[Receiving, dict[str, str]]]:
    """Slack, Discord and the others by their own names; the variables that lead to them."""
    import trustme

    authority = trustme.CA()
    bundle = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    kept = Receiving("")

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            import ssl

            host = self.rfile.readline().split()[1].decode().partition(":")[0]
            while self.rfile.readline().strip():
                pass
            self.connection.sendall(b"HTTP/1.1 200 here\r\n\r\n")
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            authority.issue_cert(host).configure_cert(context)
            with context.wrap_socket(self.connection, server_side=True) as inside:
                stream = inside.makefile("rwb")
                path = stream.readline().split()[1].decode()
                headers = {"host": host}
                while line := stream.readline().strip():
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                raw = stream.read(int(headers.get("content-length", 0)))
                kept.arrived.put(Sent(path, headers, raw))
                stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                stream.flush()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield kept, {"HTTPS_PROXY": address, "REQUESTS_CA_BUNDLE": str(bundle)}
    finally:
        server.shutdown()
        server.server_close()


def rerail(
    *words: str, home: Path, cwd: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command of rerail's as a person types it; `home` is where its runs go."""
    variables = {**os.environ, "RERAIL_HOME": str(home), "NO_COLOR": "1", **(environ or {})}
    return subprocess.run(
        [sys.executable, "-m", "rerail", *words],
        cwd=cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
    )


def python(program: str) -> Sequence[str]:
    return ("--", sys.executable, "-c", program)


def last_run(home: Path) -> RunFolder:
    return Store(home).resolve("last")


def notified(folder: RunFolder) -> list[dict[str, Any]]:
    return [event.data for event in folder.events() if event.kind == "notified"]
