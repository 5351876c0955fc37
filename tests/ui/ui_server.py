"""A real `rerail ui` in a process of its own, and stores for it to show."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

RECORDINGS = Path(__file__).parent.parent / "recordings" / "schema-1"
PROGRAMS = Path(__file__).parent.parent / "programs"


class UiServer:
    """Started at once, ended by `close`; `get` asks as somebody who has the token."""

    def __init__(self, home: Path, *options: str, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "rerail", "ui", "--json", "--home", str(home)]
        self._process = subprocess.Popen(
            [*command, *(options or ("--port", "0"))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.end_status: int | None = None
        assert self._process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self._process.stdout.readline()
            assert line, f"rerail ui did not start: {self.end()}"
            text += line
        told = json.loads(text)
        self.address, self.plain_address = str(told["address"]), str(told["plain_address"])
        self.token = str(told["token"])
        parts, plain = urlsplit(self.address), urlsplit(self.plain_address)
        # Browsers resolve the name to loopback by themselves; Python asks the system.
        self.name, self.port = str(parts.hostname), int(parts.port or 0)
        self.host = str(plain.hostname)
        self.base = f"http://{self.host}:{self.port}"

    def ask(
        self, path: str, headers: dict[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of exactly this request."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=180)
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        return answer.status, found, body

    def ask_by_name(
        self, path: str, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """The same under the random name of this start, as a browser asks."""
        return self.ask(path, {"Host": f"{self.name}:{self.port}", **(headers or {})})

    def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        return self.ask(path, {"Authorization": f"Bearer {self.token}"})

    def json(self, path: str) -> Any:
        status, _, body = self.get(path)
        assert status == 200, (path, status, body[:300])
        return json.loads(body)

    def end(self) -> tuple[int, str]:
        """Ctrl-C, as a person would: the exit status, and what it said on standard error."""
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=180)
        self.end_status = self._process.returncode
        return self._process.returncode, said

    def close(self) -> None:
        if self._process.poll() is None:
            self.end()


def keep_recording(home: Path, name: str, run_id: str) -> Path:
    """A real recording, as if it had been made in this store."""
    folder = home / "runs" / run_id
    shutil.copytree(RECORDINGS / name, folder)
    document = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**document, "id": run_id}))
    return folder


def record(home: Path, *command: str, label: str = "") -> subprocess.Popen[bytes]:
    """`rerail run` of a command, under way."""
    options = ["--home", str(home), "--quiet", *(["--label", label] if label else [])]
    return subprocess.Popen(
        [sys.executable, "-m", "rerail", "run", *options, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
