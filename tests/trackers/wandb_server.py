"""What a W&B server is told by the real `wandb sync`: its side of the wire, and nothing behind it.

W&B's own server cannot run here; the client that reads the file and speaks is the real one.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Told:
    """What arrived."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.is_complete = False
        self.summary: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.runs: list[str] = []
        self.url = ""


@contextmanager
def wandb_server() -> Iterator[Told]:
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            answer: dict[str, Any] = {}
            if self.path.startswith("/graphql"):
                asked = json.loads(body)
                answer = {"data": _graphql(told, asked["query"], asked.get("variables") or {})}
            elif self.path.endswith("/file_stream"):
                said = json.loads(body)
                if said.get("complete"):
                    told.is_complete, told.exit_code = True, said.get("exitcode")
            elif self.path.startswith("/up/"):
                name = self.path.removeprefix("/up/")
                told.files[name] = body
                if name == "wandb-summary.json":
                    told.summary = json.loads(body)
            octets = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815  http.server's names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


def _graphql(told: Told, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    if "upsertBucket" in query:
        told.runs.append(variables["name"])
        project = {"id": "P", "name": "shelf", "entity": {"id": "E", "name": "somebody"}}
        bucket = {"id": "B", "name": variables["name"], "displayName": "x", "project": project}
        more = {"description": None, "config": None, "sweepName": None, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": {**bucket, **more}, "inserted": True}}
    if "createRunFiles" in query:
        files = [
            {"name": name, "uploadUrl": f"{told.url}/up/{name}"} for name in variables["files"]
        ]
        return {"createRunFiles": {"runID": "B", "uploadHeaders": [], "files": files}}
    if "viewer" in query:
        viewer = {"id": "V", "entity": "somebody", "username": "u", "flags": "{}"}
        return {"viewer": {**viewer, "teams": {"edges": []}}, "serverInfo": {"features": []}}
    return {"serverInfo": {"features": []}}
