"""A real HTTP server on loopback that speaks the chat completions API, well or badly.

`serving(answer)` gives the server; `answer` makes the whole response of one request. What was asked
is kept: every byte that left rerail can be looked at.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny-model"


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    @property
    def lines(self) -> dict[int, str]:
        """The evidence as the model sees it: number and text."""
        user = self.document["messages"][1]["content"].partition("\nEvidence:\n")[2]
        split = [line.partition("| ") for line in user.splitlines()]
        return {int(number): text for number, _, text in split}


@dataclass
class Server:
    url: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def questions(self) -> list[Asked]:
        return [each for each in self.asked if each.path.endswith("/chat/completions")]


class Exchange(BaseHTTPRequestHandler):
    """One request; what the answers of the tests use to write their response."""

    answer: Callable[[Exchange, Asked], None]
    kept: Server

    def do_GET(self) -> None:
        self._keep(b"")
        if self.path.partition("?")[0].endswith("/models"):
            self.send_json({"object": "list", "data": [{"id": MODEL}, {"id": "other"}]})
        else:
            self.send_json({}, 404)

    def do_POST(self) -> None:
        asked = self._keep(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).answer(self, asked)

    def _keep(self, raw: bytes) -> Asked:
        asked = Asked(self.path, dict(self.headers.items()), raw)
        self.kept.asked.append(asked)
        return asked

    def send_json(self, document: Any, status: int = 200, headers: Any = ()) -> None:
        self.send_raw(json.dumps(document).encode(), status, headers)

    def send_raw(self, raw: bytes, status: int = 200, headers: Any = ()) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def say(self, content: str) -> None:
        """As a server answers whose model said this."""
        message = {"role": "assistant", "content": content}
        self.send_json({"object": "chat.completion", "choices": [{"message": message}]})

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(answer: Callable[[Exchange, Asked], None]) -> Iterator[Server]:
    kept = Server("")
    handler = type("Handler", (Exchange,), {"answer": staticmethod(answer), "kept": kept})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        kept.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


def saying(content: str) -> Callable[[Exchange, Asked], None]:
    return lambda exchange, _: exchange.say(content)


def naming(cause: str, part_of_line: str) -> Callable[[Exchange, Asked], None]:
    """A model that names a cause, and the lines that hold this text."""

    def answer(exchange: Exchange, asked: Asked) -> None:
        numbers = [number for number, text in asked.lines.items() if part_of_line in text]
        exchange.say(json.dumps({"id": cause, "lines": numbers}))

    return answer
