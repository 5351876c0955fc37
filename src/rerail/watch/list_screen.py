"""The runs on record: what lives first, then what ended, newest first. Enter opens one.

In: the store's home. Out: the rows of `rerail runs`, read again every few seconds; the folder of
the run that was chosen.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from rerail.report.run_list import run_entry
from rerail.report.run_table import rows, short_ids
from rerail.store import RunFolder
from rerail.watch import answers
from rerail.watch.screens import HELP, FilterInput, LinesScreen

LOOK_SECONDS = 3.0
MOST_ROWS = 200
_KEYS = "enter open  / filter  ? help  q quit"


class ListScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "app.leave", "quit"),
        Binding("slash", "filter", "filter"),
        Binding("question_mark", "help", "help"),
        Binding("tab", "app.next_run", show=False, priority=True),
    ]

    class Chosen(Message):
        def __init__(self, folder: RunFolder) -> None:
            super().__init__()
            self.folder = folder

    def __init__(self, home: Path | None) -> None:
        super().__init__()
        self._home = home
        self._looking = threading.Lock()
        self._folders: list[RunFolder] = []
        self._lines: list[Text] = []
        self._is_composed = False

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield OptionList(id="runs", markup=False)
        yield FilterInput()
        yield Static(Text(_KEYS, style="dim"), id="keys")

    def on_mount(self) -> None:
        self._is_composed = True
        self.query_one(OptionList).focus()
        self.set_interval(LOOK_SECONDS, self._begin_look)
        self._begin_look()

    def on_resize(self) -> None:
        self._begin_look()

    def _begin_look(self) -> None:
        if self.app.screen is self or not self._folders:
            self.run_worker(self._look, thread=True, group="list", exit_on_error=False)

    def _look(self) -> None:
        if not self._looking.acquire(blocking=False):
            return
        try:
            runs = answers.runs_to_list(self._home)[:MOST_ROWS]
            entries = [run_entry(run) for run in runs]
            short = short_ids([run.id for run in runs], entries)
            width = max(20, self.size.width - 1)
            lines = list(rows(entries, short, width, time.time(), unfolds=False)) if runs else []
            folders = [RunFolder(run.folder) for run in runs]
            self.app.call_from_thread(self._show, folders, lines)
        except Exception as error:
            said = [Text(answers.in_one_line(error))]
            self.app.call_from_thread(self._show, [], said)
        finally:
            self._looking.release()

    def _show(self, folders: list[RunFolder], lines: list[Text]) -> None:
        self._folders, self._lines = folders, lines
        self._draw()

    def _draw(self) -> None:
        if not self._is_composed:
            return
        title = self.query_one("#title", Static)
        options = self.query_one(OptionList)
        if not self._folders:
            said = self._lines[0] if self._lines else Text("Nothing is recorded here yet.")
            title.update(said)
            options.clear_options()
            return
        head, rest = self._lines[:2], self._lines[2:]
        title.update(Text("\n").join(head))
        wanted = self.query_one(FilterInput).value.lower()
        chosen = options.highlighted_option.id if options.highlighted_option else None
        shown = [
            Option(line, id=folder.id)
            for folder, line in zip(self._folders, rest, strict=True)
            if wanted in line.plain.lower() or wanted in folder.id.lower()
        ]
        options.clear_options()
        options.add_options(shown)
        ids = [option.id for option in shown]
        if shown:
            options.highlighted = ids.index(chosen) if chosen in ids else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        for folder in self._folders:
            if folder.id == event.option.id:
                self.post_message(self.Chosen(folder))

    def on_input_changed(self) -> None:
        self._draw()

    def on_filter_input_left(self) -> None:
        self.query_one(OptionList).focus()

    def action_filter(self) -> None:
        self.query_one(FilterInput).begin()

    def action_help(self) -> None:
        self.app.push_screen(LinesScreen("keys of rerail watch", HELP.splitlines()))
