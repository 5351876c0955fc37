"""The application: which run is on the screen, and how the terminal is left.

In: the folders that were named, none for the list. Out: the exit status: 0 when the user left, 128
and the signal's number when a signal ended it. Promises: the terminal is as it was, whether the
user leaves, SIGTERM or SIGHUP comes, or something of ours fails.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from rerail.platform.low_priority import make_room_for_others
from rerail.store import RunFolder
from rerail.watch import answers
from rerail.watch.list_screen import ListScreen
from rerail.watch.run_screen import RunScreen

ENDED_BY = (signal.SIGTERM, signal.SIGHUP)


class WatchApp(App[int]):
    TITLE = "rerail watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; }
    #picture { height: 1fr; width: 100%; }
    #title { height: auto; width: 100%; }
    #body, #runs { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; }
    #runs:focus { border: none; }
    #lines { width: 100%; text-wrap: nowrap; text-overflow: ellipsis; }
    #keys { dock: bottom; height: 1; width: 100%; }
    FilterInput { dock: bottom; height: 1; margin-bottom: 1; }
    Question { align: center middle; }
    #question { width: 70; max-width: 95%; height: auto; border: round $error; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(self, folders: Sequence[RunFolder], home: Path | None = None) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self._named = list(folders)
        self._home = home
        self._list: ListScreen | None = None

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in ENDED_BY:
            try:
                loop.add_signal_handler(number, self.exit, 128 + number)
            except (RuntimeError, ValueError):
                pass  # not the main thread: whoever runs us deals with signals
        if self._named:
            self.push_screen(RunScreen(self._named[0]))
        else:
            self.push_screen(self._list_screen())

    def _list_screen(self) -> ListScreen:
        if self._list is None:
            self._list = ListScreen(self._home)
        return self._list

    def on_list_screen_chosen(self, message: ListScreen.Chosen) -> None:
        self._show(message.folder)

    def _show(self, folder: RunFolder) -> None:
        """In the place of a run that is there, above the list."""
        screen = RunScreen(folder)
        if isinstance(self.screen, RunScreen):
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def action_next_run(self) -> None:
        """Of those that were named; without names, of those that live."""
        folders = self._named
        if len(folders) < 2:
            home = self._named[0].path.parent.parent if self._named else self._home
            folders = answers.live_folders(home)
        shown = self.screen.folder.id if isinstance(self.screen, RunScreen) else None
        ids = [folder.id for folder in folders]
        if not folders or ids == [shown]:
            return
        at = ids.index(shown) + 1 if shown in ids else 0
        self._show(folders[at % len(folders)])

    def action_list_runs(self) -> None:
        listing = self._list_screen()
        if listing in self.screen_stack:
            while self.screen is not listing:
                self.pop_screen()
        else:
            self.push_screen(listing)

    def action_leave(self) -> None:
        """Back to the list or the run that it was opened from; from there, out."""
        below: list[Screen[object]] = self.screen_stack[:-1]
        if any(isinstance(screen, (RunScreen, ListScreen)) for screen in below):
            self.pop_screen()
        else:
            self.exit(0)

    def _print_error_renderables(self) -> None:
        """Not Textual's own page about a defect: `run_app` raises it, and rerail tells of it."""


def run_app(folders: Sequence[RunFolder], home: Path | None = None) -> int:
    """Until the user leaves. The mouse stays the terminal's own, so that text can be copied."""
    make_room_for_others()  # on a full machine the training goes first
    app = WatchApp(folders, home)
    status = app.run(mouse=False)
    if (error := getattr(app, "_exception", None)) is not None:
        raise error
    return status if status is not None else app.return_code or 0
