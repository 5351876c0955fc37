"""Who may read the pages: only who has the token, only under our own name, only to read."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from conftest import RUNS
from ui_server import UiServer

RUN = RUNS["segfault"]
ADDRESSES = [
    "/",
    "/runs",
    "/runs.json",
    f"/runs/{RUN}",
    f"/runs/{RUN}.json",
    f"/runs/{RUN}/details",
    f"/runs/{RUN}/details.json",
    f"/runs/{RUN}/series.json",
    f"/runs/{RUN}/output.json",
    f"/runs/{RUN}/search.json?q=step",
    f"/compare?run={RUN}&run={RUNS['hang']}",
    f"/compare.json?run={RUN}&run={RUNS['hang']}",
    "/groups/isolate/abc",
    "/openapi.json",
    "/static/run.js",
    "/static/report.css",
    "/no-such-page",
]


@pytest.mark.parametrize("path", ADDRESSES)
def test_without_the_token_nothing_is_shown(server: UiServer, path: str) -> None:
    mark = "&" if "?" in path else "?"
    for headers, where in (
        ({}, path),
        ({"Authorization": "Bearer wrong"}, path),
        ({"Cookie": f"rerail-ui-{server.port}=wrong"}, path),
        ({}, f"{path}{mark}token=wrong"),
        ({}, f"{path}{mark}token="),
    ):
        status, _, body = server.ask(where, headers)
        assert (status, body) == (401, b"Open the address that `rerail ui` printed.\n")


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_foreign_name_is_refused_even_with_the_token(server: UiServer, path: str) -> None:
    bearer = {"Authorization": f"Bearer {server.token}"}
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1:1", "0.0.0.0", ""):
        status, _, body = server.ask(path, {"Host": host, **bearer})
        assert status == 421 and RUN.encode() not in body
    for name in ("localhost", "127.0.0.1", "[::1]"):
        status, *_ = server.ask(path, {"Host": f"{name}:{server.port}", **bearer})
        assert status in (200, 307, 404)


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_of_another_site_is_refused(server: UiServer, path: str) -> None:
    bearer = {"Authorization": f"Bearer {server.token}"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{server.port + 1}"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
    ):
        status, found, _ = server.ask(path, {**bearer, **headers})
        assert status == 403
        assert "access-control-allow-origin" not in found


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "WHAT"])
def test_nothing_but_reading(server: UiServer, method: str) -> None:
    status, *_ = server.ask("/runs", {"Authorization": f"Bearer {server.token}"}, method)
    assert status == 405


def test_a_body_is_refused(server: UiServer) -> None:
    bearer = {"Authorization": f"Bearer {server.token}"}
    assert server.ask("/runs", {**bearer, "Content-Length": "9"})[0] == 413
    assert server.ask("/runs", {**bearer, "Transfer-Encoding": "chunked"})[0] == 413


def test_a_long_address_is_refused(server: UiServer) -> None:
    assert server.get("/runs?q=" + "a" * 9000)[0] == 414
    assert server.get("/runs?q=" + "a" * 100_000)[0] in (400, 414, 431)


def test_the_printed_address_becomes_a_cookie(server: UiServer) -> None:
    status, headers, body = server.ask_by_name(f"/runs?state=failed&token={server.token}")
    assert (status, headers["location"], body) == (303, "/runs?state=failed", b"")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    status, _, page = server.ask_by_name(headers["location"], {"Cookie": f"other=1; {cookie}"})
    assert status == 200 and RUN.encode() in page
    assert server.token.encode() not in page


def test_a_link_on_another_site_leads_in_without_a_redirect(server: UiServer) -> None:
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    visit |= {"Sec-Fetch-Dest": "document"}
    status, headers, body = server.ask_by_name(f"/?token={server.token}", visit)
    assert status == 200 and "set-cookie" in headers
    assert body == b'<meta http-equiv="refresh" content="0;url=/">'


def test_the_redirect_stays_here(server: UiServer) -> None:
    for path in ("//evil.example/", "/\\evil.example/", "/%0d%0aX-Evil:1"):
        status, headers, _ = server.ask_by_name(f"{path}?token={server.token}")
        place = headers.get("location", "/")
        assert status in (303, 400)
        assert place.startswith("/") and not place.startswith(("//", "/\\"))
        assert "x-evil" not in headers
        status, headers, _ = server.ask(f"{path}?token={server.token}")
        named = f"http://{server.name}:{server.port}/"
        assert status in (303, 400) and headers.get("location", named).startswith(named)
        assert "x-evil" not in headers


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_answer_is_locked_down(server: UiServer, path: str) -> None:
    for headers in (server.get(path)[1], server.ask(path)[1]):
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../..",
        "..%2f..%2fetc",
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "last",
        "20260101",
        "..%5c..",
        "%00",
        "a%0d%0ab",
        "~root",
        "." * 300,
        "%ff%fe",
        "<script>",
    ],
)
def test_no_name_reaches_outside_the_store(server: UiServer, name: str) -> None:
    """Only a run's whole id names it: no prefix, no label, no folder, no way up."""
    for path in (
        f"/runs/{name}",
        f"/runs/{name}.json",
        f"/runs/{name}/details",
        f"/runs/{name}/output.json",
        f"/runs/{name}/series.json",
        f"/groups/isolate/{name}",
        f"/groups/{name}/x.json",
        f"/static/{name}",
        f"/static/..%2fapp.py{name}",
        f"/compare.json?run={name}&run={RUN}",
    ):
        status, headers, body = server.get(path)
        assert status in (400, 404), (path, status)
        assert b"root:" not in body and b"Traceback" not in body
        assert b"<script>" not in body or headers["content-type"] == "application/json"


def test_a_socket_needs_the_same(server: UiServer) -> None:
    websockets = pytest.importorskip("websockets")
    from websockets.asyncio.client import connect

    async def status_of(headers: dict[str, str], **more: str) -> int:
        try:
            async with connect(
                f"ws://127.0.0.1:{server.port}/live", additional_headers=headers, **more
            ):
                return 101
        except websockets.InvalidStatus as refused:
            return int(refused.response.status_code)

    async def ask() -> None:
        bearer = {"Authorization": f"Bearer {server.token}"}
        assert await status_of({}) == 403
        assert await status_of({"Authorization": "Bearer wrong"}) == 403
        assert await status_of(bearer, origin="http://evil.example") == 403
        assert await status_of(bearer, origin=server.base) == 101
        assert await status_of({"Cookie": f"rerail-ui-{server.port}={server.token}"}) == 403

    asyncio.run(ask())


def test_it_listens_on_loopback_alone(server: UiServer) -> None:
    try:
        outside = socket.gethostbyname(socket.gethostname())
    except OSError:
        pytest.skip("this machine has no name of its own")
    if outside.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    with pytest.raises(OSError), socket.create_connection((outside, server.port), timeout=5):
        pass


def test_a_failure_is_a_plain_sentence(server: UiServer) -> None:
    status, _, body = server.get("/runs.json?page=zero")
    assert status == 400
    assert json.loads(body)["error"] == "page is not a whole number from 1 to 1000000"
    status, _, body = server.get("/runs?state=<script>")
    assert status == 400 and b"<script>" not in body and b"state is none of" in body


def test_beyond_loopback_only_addresses_and_our_own_name(tmp_path: Path) -> None:
    """A plain address cannot be bent by DNS; any other name can."""
    server = UiServer(tmp_path, "--host", "0.0.0.0", "--port", "0")
    server.host = "127.0.0.1"
    try:
        bearer = {"Authorization": f"Bearer {server.token}"}
        for name in ("10.1.2.3", "127.0.0.1", "[2001:db8::1]", socket.gethostname()):
            host = {"Host": f"{name}:{server.port}"}
            assert server.ask("/runs", {**host, **bearer})[0] == 200, name
            assert server.ask("/runs", host)[0] == 401, name
        for name in ("evil.example", "10.1.2.3.evil.example", "1"):
            assert server.ask("/runs", {"Host": f"{name}:{server.port}", **bearer})[0] == 421, name
    finally:
        server.close()


def test_beyond_loopback_it_says_what_is_exposed(capsys: pytest.CaptureFixture[str]) -> None:
    from rerail.cli.ui import _tell
    from rerail.ui import UiSettings

    _tell("http://box:1/?token=t", UiSettings(Path("/store"), "0.0.0.0", 1), False)
    said = capsys.readouterr().out
    assert "everybody on the network" in said and "not encrypted" in said and "ssh -L" in said
    _tell("http://127.0.0.1:1/?token=t", UiSettings(Path("/store"), "127.0.0.1", 1), False)
    assert "Only this machine can open it" in capsys.readouterr().out


def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path, server: UiServer) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "rerail", "ui", "--home", str(tmp_path)]
    taken = subprocess.run(
        [*command, "--port", str(server.port)], capture_output=True, text=True, timeout=180
    )
    assert taken.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {server.port}" in taken.stderr
    assert "--port" in taken.stderr


def test_the_head_of_a_page_has_no_body(server: UiServer) -> None:
    bearer = {"Authorization": f"Bearer {server.token}"}
    for path in ("/runs", "/runs.json", f"/runs/{RUN}"):
        status, headers, body = server.ask(path, bearer, "HEAD")
        assert status == 200 and body == b"" and int(headers["content-length"]) > 100
