"""The token stays with its owner: in no command line, and in no cookie that others are sent."""

from __future__ import annotations

import base64
import json
import os
import select
import shlex
import socket
import stat
import sys
from pathlib import Path

import pytest
from conftest import RUNS
from ui_server import UiServer

from rerail.errors import UsageError
from rerail.ui import UiSettings, serve
from rerail.ui.opening import OpeningFile

RUN = RUNS["segfault"]

# What `--open` starts: tells what every user can see of it, and what its file is.
RECORDING_BROWSER = """#!{python}
import json, os, sys
from urllib.request import url2pathname
from urllib.parse import urlsplit
file = url2pathname(urlsplit(sys.argv[-1]).path)
with open("/proc/self/cmdline", "rb") as shown:
    cmdline = shown.read().decode(errors="replace")
told = dict(
    cmdline=cmdline,
    file=file,
    text=open(file).read(),
    modes=[os.stat(path).st_mode for path in (file, os.path.dirname(file))],
)
with open({fifo!r}, "w") as out:
    json.dump(told, out)
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc here")
@pytest.mark.parametrize("ends_by", ["use", "ctrl-c"])
def test_the_browser_is_opened_without_the_token(tmp_path: Path, home: Path, ends_by: str) -> None:
    fifo, browser = tmp_path / "told", tmp_path / "browser.py"
    os.mkfifo(fifo)
    browser.write_text(RECORDING_BROWSER.format(python=sys.executable, fifo=str(fifo)))
    command = f"{shlex.join([sys.executable, str(browser)])} %s"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    server = UiServer(home, "--open", "--port", "0", env={"BROWSER": command})
    try:
        told = json.loads(_all_of(reader))
        assert server.token not in told["cmdline"] and server.name not in told["cmdline"]
        assert told["cmdline"].count("file:///") == 1
        assert server.address in told["text"]
        assert [stat.S_IMODE(mode) for mode in told["modes"]] == [0o600, 0o700]
        if ends_by == "use":
            assert server.ask_by_name(f"/?token={server.token}")[0] == 303
            assert not Path(told["file"]).parent.exists()
    finally:
        os.close(reader)
        server.close()
    assert not Path(told["file"]).parent.exists()


def _all_of(reader: int) -> bytes:
    """What a writer puts into a pipe, until it closes its end."""
    told = b""
    while select.select([reader], [], [], 180)[0]:
        part = os.read(reader, 1 << 16)
        if not part:
            return told
        told += part
    raise AssertionError("the browser was not started")


def test_a_browser_that_never_comes_leaves_no_file() -> None:
    opening = OpeningFile(seconds=0.01)
    file = opening.write("http://x.localhost/?token=secret")
    timer = opening._timer
    if timer is not None:
        timer.join(180)
    assert not file.parent.exists()


def test_a_cookie_counts_only_under_the_random_name(server: UiServer) -> None:
    """Cookies of 127.0.0.1 and localhost are sent to every port of them."""
    cookie = {"Cookie": f"rerail-ui-{server.port}={server.token}"}
    assert server.ask_by_name("/runs.json", cookie)[0] == 200
    for name in ("127.0.0.1", "localhost", "[::1]"):
        host = {"Host": f"{name}:{server.port}"}
        assert server.ask("/runs.json", {**host, **cookie})[0] == 401
        status, headers, _ = server.ask(f"/runs?page=1&token={server.token}", host)
        assert status == 303 and "set-cookie" not in headers
        named = f"http://{server.name}:{server.port}"
        assert headers["location"] == f"{named}/runs?page=1&token={server.token}"


def test_no_two_starts_have_the_same_name(server: UiServer) -> None:
    names = {UiSettings(Path()).name for _ in range(50)}
    assert len(names) == 50 and server.name not in names
    other = {"Host": f"{names.pop()}:{server.port}", "Authorization": f"Bearer {server.token}"}
    assert server.ask("/runs", other)[0] == 421


def test_a_browser_that_does_not_find_the_name_is_asked_for_a_password(server: UiServer) -> None:
    """Browsers keep a password for one port of one host, and send it to no other."""
    status, headers, _ = server.ask("/runs")
    assert status == 401 and headers["www-authenticate"].startswith("Basic realm=")
    assert "www-authenticate" not in server.ask_by_name("/runs")[1]
    for password, wanted in ((server.token, 200), ("wrong", 401), ("", 401)):
        words = base64.b64encode(f"anybody:{password}".encode()).decode()
        assert server.ask("/runs", {"Authorization": f"Basic {words}"})[0] == wanted
    for broken in ("Basic", "Basic %%%", "Basic /w==", "Basic é"):
        assert server.ask("/runs", {"Authorization": broken})[0] == 401


def test_beyond_loopback_the_token_becomes_a_password(home: Path) -> None:
    server = UiServer(home, "--host", "0.0.0.0", "--port", "0")
    server.host = "127.0.0.1"
    try:
        status, headers, _ = server.ask(f"/runs?page=1&token={server.token}")
        assert status == 303 and "set-cookie" not in headers
        place = f"127.0.0.1:{server.port}"
        assert headers["location"] == f"http://rerail:{server.token}@{place}/runs?page=1"
        cookie = {"Cookie": f"rerail-ui-{server.port}={server.token}"}
        assert server.ask("/runs", cookie)[0] == 401
    finally:
        server.close()


def _ipv6_listener(port: int = 0) -> socket.socket:
    try:
        taken = socket.socket(socket.AF_INET6)
        taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(("::1", port))
        taken.listen()
        return taken
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")


def test_nobody_else_is_behind_the_other_loopback_address(server: UiServer, tmp_path: Path) -> None:
    """Browsers resolve the name to ::1 as well: whoever listens there would get the token."""
    with _ipv6_listener() as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(UsageError, match=f"::1 port {port}"):
            serve(UiSettings(tmp_path, port=port), lambda address, settings: None)
    with socket.create_connection(("::1", server.port), timeout=180):
        pass
