"""`rerail watch` in a real terminal (tmux): what it draws, and how it leaves the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watched_runs import WatchedRun, wait_until

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is not installed: no real terminal to draw on"
)

RERAIL = [sys.executable, "-m", "rerail"]
Start = Callable[..., WatchedRun]


class Terminal:
    """A shell in a window of tmux, with a server of its own."""

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        self._socket = str(folder / "tmux")
        self._tmux("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "exec sh")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def run(self, *command: str) -> None:
        # The marks are put together by the shell, so that what is typed does not hold them.
        self.type(f"stty -g > before; clear; {shlex.join(command)}; echo le''ft $?", "Enter")

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def is_on_alternate_screen(self) -> bool:
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def has_cursor(self) -> bool:
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def until_shown(self, *parts: str) -> None:
        wait_until(lambda: all(part in self.text() for part in parts))

    def pid_of(self, words: str) -> int:
        (shell,) = self._tmux("list-panes", "-F", "#{pane_pid}").split()
        for child in Path(f"/proc/{shell}/task/{shell}/children").read_text().split():
            if words in Path(f"/proc/{child}/cmdline").read_text().replace("\0", " "):
                return int(child)
        raise AssertionError(f"no process {words}")

    def is_as_before(self, folder: Path) -> bool:
        """The same settings, on the first screen, with a cursor."""
        after = folder / "after"
        after.unlink(missing_ok=True)
        self.type("stty -g > after.new; mv after.new after", "Enter")
        wait_until(after.exists)
        same = after.read_text() == (folder / "before").read_text()
        return same and self.has_cursor() and not self.is_on_alternate_screen()

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture(params=[(80, 24), (120, 40)], ids=["80x24", "120x40"])
def terminal(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("SHELL", "/bin/sh")  # some users may not log in, and have none
    found = Terminal(tmp_path, request.param)
    yield found
    found.close()


@pytest.mark.thorough
def test_it_draws_and_leaves_the_terminal_as_it_was(
    start_run: Start, terminal: Terminal, tmp_path: Path
) -> None:
    run = start_run("step 7/90 loss 0.5")
    terminal.run(*RERAIL, "watch", str(run.folder.path))
    terminal.until_shown("running for", "step 7/90 loss 0.5", "q quit")
    assert terminal.is_on_alternate_screen()
    terminal.resize(100, 30)
    run.tell("after the resize")
    terminal.until_shown("after the resize", "q quit")
    terminal.type("q")
    terminal.until_shown("left 0")
    assert terminal.is_as_before(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(
    start_run: Start, terminal: Terminal, tmp_path: Path, number: signal.Signals
) -> None:
    run = start_run()
    terminal.run(*RERAIL, "watch", str(run.folder.path))
    terminal.until_shown("running for")
    os.kill(terminal.pid_of("rerail watch"), number)
    terminal.until_shown(f"left {128 + number}")
    assert terminal.is_as_before(tmp_path)


def test_a_defect_of_ours_leaves_the_terminal_as_it_was(
    start_run: Start, terminal: Terminal, tmp_path: Path
) -> None:
    run = start_run()
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys\n"
        "from rerail.watch.run_screen import RunScreen\n"
        "def fail(self): raise RuntimeError('planted')\n"
        "RunScreen.action_help = fail\n"
        "from rerail.__main__ import main\n"
        "sys.exit(main())\n"
    )
    terminal.run(sys.executable, str(broken), "watch", str(run.folder.path))
    terminal.until_shown("running for")
    terminal.type("?")
    terminal.until_shown("planted", "left 2")
    assert terminal.is_as_before(tmp_path)


def test_without_a_terminal_it_says_what_to_type(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RERAIL, "watch"], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "rerail show last --follow" in done.stderr


def test_without_textual_it_says_what_to_install(terminal: Terminal, tmp_path: Path) -> None:
    without = "import sys; sys.modules['textual'] = None; from rerail.__main__ import main"
    terminal.run(sys.executable, "-c", f"{without}; sys.exit(main())", "watch")
    terminal.until_shown("rerail[watch]", "left 2")
