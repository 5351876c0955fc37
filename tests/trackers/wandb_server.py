"""W&B's side of the wire for the real client: runs as its server keeps them, as far as it is told.

W&B's own server cannot run here. This one answers what the client asks for (GraphQL, the stream of
a run's files, uploads), keeps the state of each run as W&B documents it (running until a client
says that it is complete, then finished or failed by its exit code), and refuses a wrong key.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "0" * 40
CRASHED = 254  # the exit code with which a client says so itself


@dataclass
class Run:
    name: str
    state: str = "running"
    exit_code: int | None = None
    config: str = "{}"
    display_name: str = "x"
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    history: dict[int, str] = field(default_factory=dict)
    states: list[str] = field(default_factory=lambda: ["running"])

    @property
    def is_complete(self) -> bool:
        return self.exit_code is not None

    def become(self, state: str) -> None:
        self.state = state
        self.states.append(state)


class Told:
    """What arrived."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.url = ""
        self.can_resume = True  # False: as if no run had ever begun
        self.can_update_state = True

    @property
    def run(self) -> Run:
        (found,) = self.runs.values()
        return found


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
            status, answer = 200, {}
            if self.path.startswith("/graphql"):
                if not self._has_key():
                    status, answer = 401, {"errors": [{"message": "user is not logged in"}]}
                else:
                    asked = json.loads(body)
                    answer = {"data": _graphql(told, asked["query"], asked.get("variables") or {})}
            elif self.path.endswith("/file_stream"):
                _take_stream(told.runs[self.path.split("/")[-2]], json.loads(body))
            elif self.path.startswith("/up/"):
                _take_file(told, self.path.removeprefix("/up/"), body)
            octets = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        def _has_key(self) -> bool:
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            return base64.b64decode(given).endswith(f":{KEY}".encode())

        do_GET = do_POST = do_PUT = _answer  # noqa: N815  http.server's names

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that is killed leaves its connections as they are."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


def _take_stream(run: Run, said: dict[str, Any]) -> None:
    """A run that is spoken of lives, whatever was said of it before."""
    if run.state != "running":
        run.exit_code = None
        run.become("running")
    for name, part in (said.get("files") or {}).items():
        if name == "wandb-history.jsonl":
            run.history.update(enumerate(part["content"], part["offset"]))
        elif name == "wandb-summary.json":
            run.summary = json.loads(part["content"][-1])
    if said.get("complete"):
        run.exit_code = said["exitcode"]
        run.become({0: "finished", CRASHED: "crashed"}.get(said["exitcode"], "failed"))


def _take_file(told: Told, place: str, body: bytes) -> None:
    run, _, name = place.partition("/")
    told.runs[run].files[name] = body
    if name == "wandb-summary.json":
        told.runs[run].summary = json.loads(body)


def _graphql(told: Told, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    if "upsertBucket" in query:
        return _upsert(told, variables)
    if "createRunFiles" in query:
        place = f"{told.url}/up/{variables['run']}"
        files = [{"name": name, "uploadUrl": f"{place}/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": "B", "uploadHeaders": [], "files": files}}
    if "updateRunState" in query:
        if told.can_update_state:
            _by_id(told, variables["input"]["id"]).become(variables["input"]["state"])
        return {"updateRunState": {"success": told.can_update_state}}
    name = variables.get("name") or variables.get("run") or variables.get("runId")
    run = told.runs.get(str(name))
    if "RunResumeStatus" in query:
        return {"model": {**_project(), "bucket": _bucket(run) if told.can_resume else None}}
    if run is not None and "RunFiles" in query:
        nodes = [{"node": {"id": n, "name": n}, "cursor": n} for n in variables["fileNames"]]
        pages = {"endCursor": "", "hasNextPage": False}
        found = {"fileCount": len(nodes), "files": {"edges": nodes, "pageInfo": pages}}
        return {"project": {"internalId": "1", "run": found}}
    if run is not None and "project" in query:
        return {"project": {"run": {**_bucket(run), "projectId": "1", "stopped": False}}}
    if "viewer" in query:
        viewer = {"id": "V", "entity": "somebody", "username": "u", "flags": "{}"}
        return {"viewer": {**viewer, "teams": {"edges": []}}, "serverInfo": {"features": []}}
    return {"serverInfo": {"features": []}, "project": None}


def _upsert(told: Told, variables: dict[str, Any]) -> dict[str, Any]:
    if variables.get("name"):
        is_new = variables["name"] not in told.runs
        run = told.runs.setdefault(variables["name"], Run(variables["name"]))
    else:
        run, is_new = _by_id(told, variables["id"]), False
    run.config = variables.get("config") or run.config
    run.display_name = variables.get("displayName") or run.display_name
    if variables.get("summaryMetrics"):
        run.summary = json.loads(variables["summaryMetrics"])
    return {"upsertBucket": {"bucket": _bucket(run), "inserted": is_new}}


def _by_id(told: Told, storage_id: str) -> Run:
    return told.runs[base64.b64decode(storage_id).decode().rpartition(":")[2]]


def _project() -> dict[str, Any]:
    return {"id": "P", "name": "shelf", "entity": {"id": "E", "name": "somebody"}}


def _bucket(run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    empty = dict.fromkeys(
        (
            *("description", "sweepName", "group", "jobType", "commit", "notes"),
            *("systemMetrics", "historyKeys", "heartbeatAt", "createdAt"),
        )
    )
    return {
        **empty,
        "id": base64.b64encode(f"Run:v1:{run.name}".encode()).decode(),
        "name": run.name,
        "displayName": run.display_name,
        "state": run.state,
        "config": run.config,
        "summaryMetrics": json.dumps(run.summary),
        "tags": [],
        "readOnly": False,
        "user": {"name": "Some Body", "username": "u"},
        "project": _project(),
        "wandbConfig": json.dumps({"t": {}}),
        "historyLineCount": len(run.history),
        "eventsLineCount": 0,
        "logLineCount": 0,
        "historyTail": json.dumps([run.history[n] for n in sorted(run.history)[-1:]]),
        "eventsTail": "[]",
    }
