"""The pages in a real browser: they work, by mouse and by keyboard, and complain of nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RUNS
from ui_browser import CHROMIUM, fetch_axe, visiting
from ui_server import UiServer, record

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here"),
]
SEGFAULT, OOM = f"/runs/{RUNS['segfault']}", f"/runs/{RUNS['oom-kill']}"
COMPARE = f"/compare?run={RUNS['segfault']}&run={RUNS['oom-kill']}&run={RUNS['healthy']}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    script = fetch_axe(tmp_path_factory.mktemp("axe"))
    if script is None:
        pytest.skip("axe-core cannot be had from the npm registry")
    return script


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("path", ["/runs", SEGFAULT, OOM, COMPARE, "/no-such-page"])
def test_every_page_fits_and_is_open_to_all(
    browser: Any, server: UiServer, axe: str, path: str, width: int, scheme: str
) -> None:
    size = {"width": width, "height": 900}
    # The checker is put in from outside; the policy stays as it is but for that.
    with visiting(
        browser, server.address, viewport=size, color_scheme=scheme, bypass_csp=True
    ) as visit:
        visit.go(path)
        if path.startswith("/runs/"):
            visit.settle()
        visit.demand_fit()
        visit.page.add_script_tag(content=axe)
        found = visit.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        grave = [
            (each["id"], each["impact"], [node["html"][:120] for node in each["nodes"]][:3])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert grave == []


@pytest.mark.parametrize("path", ["/runs", SEGFAULT, COMPARE])
def test_under_its_policy_nothing_is_refused_and_nothing_foreign_asked(
    browser: Any, server: UiServer, path: str
) -> None:
    with visiting(browser, server.address) as visit:
        visit.go(path)
        if path == SEGFAULT:
            visit.settle()
        if path == COMPARE:
            visit.page.wait_for_selector("#timeline .uplot")
        visit.demand_peace()


def test_the_list_is_searched_and_filtered(browser: Any, server: UiServer) -> None:
    with visiting(browser, server.address) as visit:
        page = visit.page
        assert page.locator("#list .run").count() == len(RUNS)
        page.keyboard.press("/")
        page.keyboard.type("host-oom")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("q=host-oom"))
        assert page.locator("#list .run").count() == 1
        page.select_option("select[name=state]", "ok")
        page.fill("input[name=q]", "")
        page.click("text=Filter")
        page.wait_for_url(re.compile("state=ok"))
        assert page.locator("#list .run [data-words]").all_inner_texts() == ["ok"]


def test_a_stretch_is_zoomed_by_mouse_and_by_keyboard(browser: Any, server: UiServer) -> None:
    with visiting(browser, server.address) as visit:
        page = visit.page
        visit.go(OOM)
        visit.settle()
        page.wait_for_selector("#chart-threads-title")
        plot = page.locator("#timeline .u-over").first
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=4)
        page.mouse.up()
        visit.wait_until("document.getElementById('shown').textContent.startsWith('Shown:')")
        page.mouse.dblclick(box["x"] + 60, box["y"] + 40)
        visit.wait_until("document.getElementById('shown').textContent === ''")
        page.locator("#timeline .plot").first.focus()
        with page.expect_response(re.compile("series.json.*from=")) as asked:
            page.keyboard.press("+")
        assert asked.value.ok
        first = page.inner_text("#shown")
        page.keyboard.press("ArrowRight")
        visit.wait_until(f"document.getElementById('shown').textContent !== {first!r}")
        page.keyboard.press("0")
        visit.wait_until("document.getElementById('shown').textContent === ''")
        visit.demand_peace()


def test_the_output_is_searched(browser: Any, server: UiServer) -> None:
    with visiting(browser, server.address) as visit:
        page = visit.page
        visit.go(f"/runs/{RUNS['healthy']}")
        visit.settle()
        page.fill("#find-words", "step 7")
        page.keyboard.press("Enter")
        page.wait_for_selector("#lines .line.here mark")
        assert "step 7" in page.inner_text("#lines .line.here").lower()
        assert re.match(r"\d+ lines? ha", page.inner_text("#find-said"))
        page.fill("#find-words", "words that nobody printed")
        page.keyboard.press("Enter")
        visit.wait_until("document.getElementById('find-said').textContent === '0 lines have it.'")


FAILS_EARLY = """
for step in range(900):
    print("step", step)
print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
for step in range(900):
    print("shutting down", step)
raise SystemExit(1)
"""


def test_evidence_leads_to_its_line(browser: Any, tmp_path: Path) -> None:
    """Also to one that lies far before the end, which the page does not hold at first."""
    home = tmp_path / "store"
    record(home, sys.executable, "-c", FAILS_EARLY).wait(180)
    server = UiServer(home)
    try:
        _follow_evidence(browser, server)
    finally:
        server.close()


def _follow_evidence(browser: Any, server: UiServer) -> None:
    with visiting(browser, server.address) as visit:
        page = visit.page
        page.locator("#list .name a").first.click()
        visit.settle()
        assert page.locator("#L901").count() == 0
        link = page.locator("#verdict a.source[href^='#L']").first
        line = link.get_attribute("href").removeprefix("#")
        assert line == "L901"
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#{line}.here")
        place = f"document.getElementById('{line}').getBoundingClientRect()"
        visit.wait_until(f"{place}.top >= 0 && {place}.bottom <= 900")  # it glides there
        visit.demand_peace()


def test_two_runs_are_chosen_and_compared_by_keyboard(browser: Any, server: UiServer) -> None:
    with visiting(browser, server.address) as visit:
        page = visit.page
        boxes = page.locator("#list input[name=run]")
        for at in (0, 1):
            boxes.nth(at).focus()
            page.keyboard.press("Space")
        page.locator("#do-compare").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/compare"))
        page.wait_for_selector("#timeline .uplot")
        assert page.locator("#compared li").count() == 2
        assert page.locator("h3", has_text="Run").count() == 1
        visit.demand_peace()


def test_a_page_is_reached_and_read_without_a_mouse(browser: Any, server: UiServer) -> None:
    """Tab goes through the bar, the filters and the rows; every stop can be seen."""
    with visiting(browser, server.address) as visit:
        page = visit.page
        seen = []
        for _ in range(40):
            page.keyboard.press("Tab")
            seen.append(
                page.evaluate(
                    "(() => { const e = document.activeElement;"
                    " return e.getAttribute('href') || e.name || e.id || e.tagName; })()"
                )
            )
            if seen[-1] == SEGFAULT:
                break
        assert seen[0] == "#main" and SEGFAULT in seen
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(SEGFAULT))


LIVE = """
import sys, time
print("begun", flush=True)
for step in range(100000):
    print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
    time.sleep(0.2)
"""


def test_a_live_run_moves_without_being_asked(browser: Any, tmp_path: Path) -> None:
    home = tmp_path / "store"
    home.mkdir()
    server = UiServer(home)
    running: subprocess.Popen[bytes] | None = None
    try:
        with visiting(browser, server.address) as visit:
            page = visit.page
            page.wait_for_selector("text=Nothing is recorded here yet")
            running = record(home, sys.executable, "-c", LIVE, label="moving")
            page.wait_for_selector("#list .run .state.live")  # pushed: the page was not loaded anew
            page.click("text=moving")
            page.wait_for_selector("#lines .line")
            page.wait_for_selector("#timeline .uplot")
            loaded = len(visit.asked)
            last = "Number(document.querySelector('#lines .line:last-child').dataset.number)"
            before = page.evaluate(last)
            visit.wait_until(f"{last} > {before + 5}")
            visit.wait_until(
                "document.querySelector('[data-now=memory]').textContent.includes('MiB')"
            )
            asked = [url for url in visit.asked[loaded:] if "output.json" in url]
            assert asked == []  # pushed, not polled
            running.terminate()
            page.wait_for_selector("h1:not(.plain)")  # it is over, and the page says how
            visit.demand_peace()
    finally:
        if running is not None:
            running.terminate()
            running.wait(180)
        server.close()


DIES = """
import os, signal, sys, time
for step in range(30):
    print(f"step {step}", flush=True)
    time.sleep(0.02)
    if step == 20 and sys.argv[-1] != "0":
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_an_investigation_is_seen_as_it_goes_on(browser: Any, tmp_path: Path) -> None:
    home, program = tmp_path / "store", tmp_path / "dies.py"
    home.mkdir()
    program.write_text(DIES)
    server = UiServer(home)
    working: subprocess.Popen[bytes] | None = None
    try:
        with visiting(browser, server.address) as visit:
            page = visit.page
            page.wait_for_selector("text=Nothing is recorded here yet")
            working = subprocess.Popen(
                [
                    *(sys.executable, "-m", "rerail", "isolate", "--yes", "--home", str(home)),
                    *("--try", "--workers 0", "--"),
                    *(sys.executable, str(program), "--workers", "2"),
                ],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            page.wait_for_selector("#list a[href^='/groups/isolate/']")
            visit.go(page.locator("#list a[href^='/groups/isolate/']").first.get_attribute("href"))
            page.wait_for_selector("h1.well")  # pushed: nobody loads the page anew
            assert "confirmed --workers 0" in page.inner_text("h1")
            assert page.locator(".runs .run").count() >= 3
            assert page.locator("#belief li").count() >= 2
            visit.demand_peace()
    finally:
        if working is not None:
            working.terminate()
            working.wait(180)
        server.close()
