"""A real Chromium on the pages, and what must hold for every page in it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HANG_SECONDS = 180
AXE = "axe-core@4.14.0"  # MPL-2.0; only tests use it, and it is not kept here


class Visit:
    """A page that was let in by the printed address; whatever it complains of is kept."""

    def __init__(self, page: Any, base: str) -> None:
        self.page = page
        self.base = base
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def go(self, path: str) -> None:
        self.page.goto(self.base + path)

    def wait_until(self, claim: str) -> None:
        """Until a claim holds. The driver's own way to wait is stopped by the page's policy."""
        until = time.monotonic() + HANG_SECONDS
        while not self.page.evaluate(claim):
            assert time.monotonic() < until, f"never came true: {claim}"
            self.page.wait_for_timeout(50)

    def settle(self) -> None:
        """Until charts, output and the rest of the record are there."""
        self.page.wait_for_selector("#lines[aria-busy=false]", state="attached")
        self.page.wait_for_selector("#details-wait", state="detached")
        self.page.wait_for_selector("#timeline .uplot, #timeline:not(:empty)")

    def demand_peace(self) -> None:
        """No word on the console, and nothing asked of anybody else."""
        assert self.said == []
        foreign = [url for url in self.asked if not url.startswith(self.base)]
        assert foreign == []

    def demand_fit(self) -> None:
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= self.page.viewport_size["width"]


@contextmanager
def visiting(browser: Any, address: str, **options: Any) -> Iterator[Visit]:
    options.setdefault("viewport", {"width": 1280, "height": 900})
    context = browser.new_context(**options)
    try:
        page = context.new_page()
        page.set_default_timeout(1000 * HANG_SECONDS)
        visit = Visit(page, address.partition("/?")[0])
        page.goto(address)
        yield visit
    finally:
        context.close()


def fetch_axe(folder: Path) -> str | None:
    """The checker's script from the npm registry; None where that cannot be reached."""
    if shutil.which("npm") is None:
        return None
    try:
        subprocess.run(
            ["npm", "pack", "--silent", AXE],
            cwd=folder,
            check=True,
            timeout=180,
            capture_output=True,
        )
        (archive,) = folder.glob("axe-core-*.tgz")
        with tarfile.open(archive) as packed:
            member = packed.extractfile("package/axe.min.js")
            return None if member is None else member.read().decode()
    except (OSError, subprocess.SubprocessError, ValueError, tarfile.TarError):
        return None
