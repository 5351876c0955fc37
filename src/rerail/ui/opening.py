"""Opening the pages in the browser without showing the token to other users.

In: the printed address. Out: a browser that was started on a file, which leads to the address.
Promises: the token is in no command line, which every user of the machine can read; the file is
readable by its owner alone, in a folder of its own, and is removed when the token was used, after
FILE_SECONDS, or when the server ends.
"""

from __future__ import annotations

import html
import shutil
import tempfile
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path

FILE_SECONDS = 120.0  # a browser that is started on a busy machine takes a while


class OpeningFile:
    """The file on which the browser is opened. `remove` may be called often, from any thread."""

    def __init__(self, seconds: float = FILE_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._timer: threading.Timer | None = None

    def open_browser(self, address: str) -> None:
        """Start the browser in a thread: some wait until it is closed."""
        try:
            file = self.write(address)
        except OSError:
            return  # the address is printed as well
        threading.Thread(target=_open, args=(file.as_uri(),), daemon=True).start()

    def write(self, address: str) -> Path:
        """Write the file, for a limited time."""
        folder = Path(tempfile.mkdtemp(prefix="rerail-ui-"))  # 0700, whatever the umask is
        file = folder / "open.html"
        file.touch(mode=0o600, exist_ok=False)
        place = html.escape(address)
        file.write_text(
            f'<!doctype html><meta charset="utf-8"><title>rerail ui</title>'
            f'<meta http-equiv="refresh" content="0;url={place}">'
            f'<p><a href="{place}">Open the runs</a></p>\n',
            encoding="utf-8",
        )
        with self._lock:
            self._folder = folder
            self._timer = threading.Timer(self._seconds, self.remove)
            self._timer.daemon = True
            self._timer.start()
        return file

    def remove(self) -> None:
        with self._lock:
            folder, self._folder = self._folder, None
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _open(place: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(place)
