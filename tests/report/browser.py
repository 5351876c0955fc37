"""Chromium without a window, driven over its own pipe: no port, no further package.

`Browser(tmp_path)` starts it, `open(page)` loads a page at a width; what the page says on the
console and what it asks of the network are kept.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
]  # fmt: skip


class Browser:
    def __init__(self, folder):
        to_browser, our_end = os.pipe()
        from_browser, browsers_end = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_browser, browsers_end)]

        def arrange():
            """Chromium reads its commands from descriptor 3 and answers on 4."""
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            preexec_fn=arrange,
            close_fds=False,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_browser, browsers_end, *ends):
            os.close(end)
        self._out, self._in = our_end, from_browser
        self._waiting, self._number, self._session = b"", 0, None
        self.said, self.asked = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self):
        while b"\0" not in self._waiting:
            more = os.read(self._in, 1 << 20)
            assert more, "the browser went away"
            self._waiting += more
        first, _, self._waiting = self._waiting.partition(b"\0")
        return json.loads(first)

    def _note(self, event):
        kind, data = event.get("method"), event.get("params", {})
        if kind in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(data)
        if kind == "Network.requestWillBeSent":
            self.asked.append(data["request"]["url"])
        return kind

    def resize(self, width, *, scheme="light", medium="screen"):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def open(self, page, width=1280, *, scheme="light", medium="screen"):
        self.resize(width, scheme=scheme, medium=medium)
        self.call("Page.navigate", url=page.as_uri())
        while self._note(self._next()) != "Page.loadEventFired":
            pass

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def drag(self, x, y, to_x):
        for kind, at in (("mouseMoved", x), ("mousePressed", x), ("mouseMoved", to_x),
                         ("mouseReleased", to_x)):  # fmt: skip
            self.mouse(kind, at, y)

    def mouse(self, kind, x, y, clicks=1):
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": clicks}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def double_click(self, x, y):
        for clicks in (1, 2):
            self.mouse("mousePressed", x, y, clicks)
            self.mouse("mouseReleased", x, y, clicks)

    def picture(self, path):
        """The whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def settle(self):
        """Until what was asked for is drawn: two frames."""
        self.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            ".then(() => true)"
        )
