"""The page in a real browser: charts are drawn under its own policy, and nothing is asked for."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from report_runs import write_run

from rerail.report import build_report
from rerail.report.html import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--virtual-time-budget=4000",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_a_browser_draws_every_chart_and_refuses_nothing(tmp_path):
    hostile = b"</script><img src=x onerror=\"document.title='broken'\">\n"
    folder = write_run(tmp_path / ".rerail", output=hostile * 5)
    document = build_report(folder)
    page = tmp_path / "page.html"
    page.write_text(render(document), encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.count("<canvas") == len(document.charts()) > 2
    assert "<title>A native library crashed" in done.stdout
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert said == []
