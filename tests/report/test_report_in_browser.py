"""The page in a real browser: drawn under its own policy, at every width, and nothing asked for."""

from __future__ import annotations

import json

import pytest
from browser import CHROMIUM, Browser
from report_runs import DIAGNOSIS, write_run
from test_report_proof import INVESTIGATION, VERIFICATION

from rerail.report import build_report
from rerail.report.html import render

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here"),
]
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A run with long paths, hostile output and both experiments: its document and its file."""
    folder = tmp_path_factory.mktemp("page")
    path = "/data/" + "a-long-folder-name/" * 12
    run = write_run(
        folder / ".rerail",
        command=["python", f"{path}train.py", "--" + "x" * 120],
        output=HOSTILE.encode() + b"\n" + b"y" * 500 + b"\n" + b"step 1\n" * 30,
        surroundings={"system": {"os": "Linux", "path": path, "k" * 60: "v" * 300}},
        diagnosis={**DIAGNOSIS, "headline": f"SIGSEGV in scan() of {'libfast' * 12}.so."},
    )
    (run.path / "investigation.json").write_text(json.dumps(INVESTIGATION))
    (run.path / "verification.json").write_text(json.dumps(VERIFICATION))
    document = build_report(run)
    file = folder / "page.html"
    file.write_text(render(document), encoding="utf-8")
    return document, file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_chart_is_drawn_and_the_page_is_no_wider_than_the_screen(
    browser, page, width, scheme
):
    document, file = page
    browser.open(file, width, scheme=scheme)
    charts = browser.value("document.querySelectorAll('canvas').length")
    assert charts == len(document.charts()) > 2
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.title").startswith("SIGSEGV in scan()")
    assert browser.said == []
    assert [url for url in browser.asked if not url.startswith(("file:", "about:"))] == []


def test_a_wide_table_scrolls_in_its_own_box(browser, page):
    browser.open(page[1], 400)
    assert browser.value(
        "[...document.querySelectorAll('main .scroll')].some(b => b.scrollWidth > b.clientWidth)"
    )


def pictures(browser):
    return browser.value("[...document.querySelectorAll('canvas')].map(c => c.toDataURL())")


def test_dragging_over_one_chart_zooms_all_and_a_double_click_resets(browser, page):
    browser.open(page[1], 1280)
    browser.value(
        "document.querySelector('.u-over').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    before = pictures(browser)
    box = browser.value(
        "(r => [r.left, r.top, r.width, r.height])"
        "(document.querySelector('.u-over').getBoundingClientRect())"
    )
    left, top, wide, high = box
    browser.drag(left + wide * 0.2, top + high / 2, left + wide * 0.6)
    browser.settle()
    zoomed = pictures(browser)
    assert all(a != b for a, b in zip(before, zoomed, strict=True))
    browser.double_click(left + wide * 0.5, top + high / 2)
    browser.settle()
    assert pictures(browser) == before


def test_every_command_has_a_button_that_copies_it(browser, page):
    document, file = page
    browser.open(file, 1280)
    browser.value(
        "window.copied = []; Object.defineProperty(navigator, 'clipboard', {configurable: true,"
        " value: {writeText: (text) => {window.copied.push(text); return Promise.resolve();}}});"
        " document.querySelectorAll('button.copy').forEach((button) => button.click())"
    )
    copied = browser.value("window.copied")
    wanted = [command for _, command in document.proof.steps]
    wanted += [value for name, value in document.facts.items if name == "command"]
    wanted += ["--scan 0", "pip install -U fast"]
    assert sorted(copied) == sorted(wanted)


def test_it_prints_on_paper(browser, page, tmp_path):
    browser.open(page[1], 1280)
    browser.resize(700, medium="print")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.value("getComputedStyle(document.querySelector('.copy')).display") == "none"
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert browser.value(
        "[...document.querySelectorAll('canvas')].every((c) =>"
        " c.getBoundingClientRect().right <= c.closest('figure').getBoundingClientRect().right + 1)"
    )
