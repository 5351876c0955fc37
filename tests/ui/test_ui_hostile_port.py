"""Another user's server on the same machine collects what a real browser sends to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from conftest import RUNS
from ui_browser import CHROMIUM, HANG_SECONDS, visiting
from ui_server import UiServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")

# Asks for the runs with whatever the browser keeps for them.
PAGE = """<!doctype html><title>hostile</title><script>
const got = [];
async function ask(host) {
  try {
    const answer = await fetch(`http://${host}:%(port)s/runs.json`, {credentials: "include"});
    got.push(await answer.text());
  } catch (error) { got.push("nothing"); }
}
function listen(host) {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://${host}:%(port)s/live`);
    socket.onmessage = (event) => { got.push(event.data); resolve(); };
    socket.onclose = () => { got.push("nothing"); resolve(); };
  });
}
Promise.all(["127.0.0.1", "localhost"].flatMap((host) => [ask(host), listen(host)]))
  .then(() => { document.title = got.join(); });
</script>"""


class Hostile:
    """Keeps the headers of every request, and answers with PAGE."""

    def __init__(self, target: int) -> None:
        self.heard: list[dict[str, str]] = []
        hostile = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hostile.heard.append({name.lower(): value for name, value in self.headers.items()})
                body = (PAGE % {"port": target}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]


@contextmanager
def hostile_server(target: int) -> Iterator[Hostile]:
    hostile = Hostile(target)
    thread = threading.Thread(target=hostile.http.serve_forever, daemon=True)
    thread.start()
    try:
        yield hostile
    finally:
        hostile.http.shutdown()
        hostile.http.server_close()
        thread.join(HANG_SECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def steal(page: Any, server: UiServer) -> None:
    """Have the browser visit the hostile server, which then tries all that it got."""
    with hostile_server(server.port) as hostile:
        for name in ("127.0.0.1", "localhost"):
            page.goto(f"http://{name}:{hostile.port}/")
            page.wait_for_function("document.title !== 'hostile'")
            assert page.title() == ",".join(["nothing"] * 4)
    assert len(hostile.heard) >= 2
    told = "\n".join(f"{name}: {value}" for each in hostile.heard for name, value in each.items())
    assert server.token not in told and server.name not in told
    for each in hostile.heard:
        stolen = {name: each[name] for name in ("cookie", "authorization") if name in each}
        assert server.ask("/runs.json", stolen)[0] == 401
        assert server.ask_by_name("/runs.json", stolen)[0] == 401


def test_the_printed_address_works_and_gives_nothing_away(browser: Any, server: UiServer) -> None:
    with visiting(browser, server.address) as visit:
        page = visit.page
        assert visit.base == f"http://{server.name}:{server.port}"
        assert page.locator("#list .run").count() == len(RUNS)
        page.wait_for_selector("#push.on")  # pushed news come under that name
        page.locator("#list .name a").first.click()
        visit.settle()
        run = page.url
        page.reload()
        visit.settle()
        page.go_back()
        page.wait_for_selector("#list .run")
        assert server.token not in page.url
        tab = page.context.new_page()
        tab.set_default_timeout(1000 * HANG_SECONDS)
        tab.goto(run)
        tab.wait_for_selector("#timeline .uplot")
        visit.demand_peace()
        steal(tab, server)
        page.reload()  # and the owner is still in
        page.wait_for_selector("#list .run")


def test_a_password_on_the_plain_address_is_not_given_away(browser: Any, server: UiServer) -> None:
    password = {"username": "me", "password": server.token}
    context = browser.new_context(http_credentials={**password, "origin": server.base})
    try:
        page = context.new_page()
        page.set_default_timeout(1000 * HANG_SECONDS)
        page.goto(server.plain_address)
        page.wait_for_selector("#push.on")
        page.locator("#list .name a").first.click()
        page.wait_for_selector("#timeline .uplot")
        steal(page, server)
    finally:
        context.close()


def test_an_address_with_a_password_works(browser: Any, server: UiServer) -> None:
    """What the token becomes beyond loopback; Chromium may not fetch relative to such a page."""
    place = f"http://rerail:{server.token}@127.0.0.1:{server.port}/runs/{RUNS['segfault']}"
    with visiting(browser, place) as visit:
        visit.settle()
        visit.page.wait_for_selector("#timeline .uplot")
