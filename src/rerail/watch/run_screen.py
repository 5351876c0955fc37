"""One run, drawn again every two seconds.

In: a run folder. Out: the picture of `report.live_screen`, and what the keys ask for. Looks are
taken in a thread of their own, so that a slow disk holds up no key. When the run dies while it is
watched, its headline and the next command appear; if nobody else explains it, this screen does, and
keeps the answer to itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from rerail.live import Follower, LiveView, build
from rerail.report import live_screen, stopped_trial
from rerail.store import RunFolder
from rerail.watch import answers, stopping
from rerail.watch.picture import Picture
from rerail.watch.screens import HELP, FilterInput, LinesScreen, Question
from rerail.wording import cut

if TYPE_CHECKING:
    from rerail.diagnosis import Diagnosis

# Two screens that looked every second added 1.6 % to the CPU time of a training's steps.
LOOK_SECONDS = 2.0
NOTE_SECONDS = 10.0
# After the end: how long `rerail run` itself is given to explain it, which keeps its answer.
EXPLAINS_AFTER_LOOKS = 2
KEYS = "s stacks  o output  e explain  k stop  p pack  tab next run  l list  / filter  q quit"
SHORT_KEYS = "s stacks  o output  e explain  k stop  p pack  tab next  / find  ? help  q quit"
TINY_KEYS = "s o e k p tab l /   ? help  q quit"


class RunScreen(Screen[None]):
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stacks", "stacks"),
        Binding("o", "output", "output"),
        Binding("e", "explain", "explain"),
        Binding("k", "stop", "stop"),
        Binding("p", "pack", "pack"),
        Binding("tab", "app.next_run", "next run", priority=True),
        Binding("l", "app.list_runs", "list"),
        Binding("slash", "filter", "filter"),
        Binding("question_mark", "help", "help"),
        Binding("r", "look", "look again"),
        Binding("q,escape", "app.leave", "quit"),
    ]

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder
        self.view: LiveView | None = None
        self._follower = Follower(folder)
        self._looking = threading.Lock()
        self._looks_after_end = 0
        self._own_answer: Diagnosis | None = None
        self._was_running = False
        self._signals_sent = 0
        self._is_composed = False
        self._note = ""
        self._foot = ("", 0)  # what stands there, and for which width
        self._note_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Picture(id="picture")
        yield FilterInput()
        yield Static(id="keys")

    def on_mount(self) -> None:
        self._is_composed = True
        self.set_focus(None)
        self.set_interval(LOOK_SECONDS, self.action_look)
        self.action_look()
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_screen_resume(self) -> None:
        self.action_look()

    # -- looking ------------------------------------------------------------------------------

    def action_look(self) -> None:
        if self.app.screen is self or self.view is None:
            self.run_worker(self._look, thread=True, group="look", exit_on_error=False)

    def _look(self) -> None:
        if not self._looking.acquire(blocking=False):
            return  # the disk is slow: one look at a time
        try:
            view = self._take_look()
            self.app.call_from_thread(self._show, view)
        except Exception as error:  # a run that was removed, a disk that went away
            said = f"cannot read the run: {answers.in_one_line(error)}"
            self.app.call_from_thread(self._say, said)
        finally:
            self._looking.release()

    def _take_look(self) -> LiveView:
        snapshot = stopped_trial.calm(self.folder.path, self._follower.look())
        if snapshot.info.state != "running" and not snapshot.diagnosis:
            self._looks_after_end += 1
            is_ok = snapshot.info.outcome is not None and snapshot.info.outcome.kind == "ok"
            has_waited = not self._was_running or self._looks_after_end >= EXPLAINS_AFTER_LOOKS
            if self._own_answer is None and has_waited and not is_ok:
                self._own_answer = answers.answer(self.folder)
            snapshot = replace(snapshot, diagnosis=self._own_answer)
        self._was_running = self._was_running or snapshot.info.state == "running"
        return build(snapshot)

    def _show(self, view: LiveView) -> None:
        has_died = self.view is not None and self.view.state == "running" != view.state
        self.view = view
        if has_died and view.is_bad:
            self.app.bell()
        self._draw()

    def _draw(self) -> None:
        if not self._is_composed:
            return
        keys = self.query_one("#keys", Static)
        picture = self.query_one(Picture)
        width, height = self.size.width, self.size.height
        fitting = [keys for keys in (KEYS, SHORT_KEYS, TINY_KEYS) if len(keys) <= width]
        foot = self._note or (fitting or [TINY_KEYS])[0]
        if (foot, width) != self._foot:
            self._foot = (foot, width)
            keys.update(Text(cut(foot, max(1, width)), style="bold" if self._note else "dim"))
        if self.view is None:
            picture.show([Text("…", style="dim")])
            return
        view = self.view
        wanted = self.query_one(FilterInput).value
        if wanted:
            view = replace(view, output=answers.matching(view.output, wanted))
        rows = max(1, height - 1 - int(self.query_one(FilterInput).display))
        picture.show(live_screen.screen_lines(view, width, rows))

    def _say(self, text: str) -> None:
        """At the foot, until the next key or for a while."""
        self._note = text
        self._draw()
        if self._note_timer is not None:
            self._note_timer.stop()
        self._note_timer = self.set_timer(NOTE_SECONDS, lambda: self._say("")) if text else None

    def on_key(self) -> None:
        if self._note:
            self._say("")

    def on_input_changed(self) -> None:
        self._draw()

    def on_filter_input_left(self) -> None:
        self._draw()

    # -- keys ---------------------------------------------------------------------------------

    def action_filter(self) -> None:
        self.query_one(FilterInput).begin()
        self._draw()

    def action_help(self) -> None:
        self.app.push_screen(LinesScreen("keys of rerail watch", HELP.splitlines()))

    def action_stacks(self) -> None:
        self._open("stacks", lambda: answers.stack_lines(self.folder))

    def action_output(self) -> None:
        self._open("output", lambda: answers.output_lines(self.folder), at_end=True)

    def action_explain(self) -> None:
        width = self.size.width
        self._open("explain", lambda: answers.explain_lines(self.folder, width))

    def _open(self, what: str, read: Callable[[], list[str]], *, at_end: bool = False) -> None:
        screen = LinesScreen(f"{what} · {self.folder.id}", None, at_end=at_end)
        self.app.push_screen(screen)

        def fill() -> None:
            try:
                lines = read()
            except Exception as error:
                lines = [f"It could not be read: {answers.in_one_line(error)}"]
            self.app.call_from_thread(screen.set_lines, lines)

        self.run_worker(fill, thread=True, group=what, exit_on_error=False)

    def action_pack(self) -> None:
        self._say("writing the package …")

        def write() -> None:
            try:
                said = answers.write_package(self.folder)
            except Exception as error:
                said = f"the package could not be written: {answers.in_one_line(error)}"
            self.app.call_from_thread(self._say, said)

        self.run_worker(write, thread=True, group="pack", exit_on_error=False)

    def action_stop(self) -> None:
        if self.view is None or self.view.state != "running":
            self._say("it is over: there is nothing to stop")
            return
        number = stopping.SIGNALS[min(self._signals_sent, len(stopping.SIGNALS) - 1)]
        label = self.view.label or " ".join(self.view.command)
        if self._signals_sent:
            question = f"It was told to stop and still runs. Send {number.name}?"
        else:
            question = f"Stop {cut(label, 60)}?"
        how = "as Ctrl-C would" if number == signal.SIGINT else "as `kill` would"
        detail = f"{number.name} goes to its recorder, which passes it on, {how}."
        self.app.push_screen(
            Question(question, detail), lambda is_yes: self._stop(number) if is_yes else None
        )

    def _stop(self, number: signal.Signals) -> None:
        why_not = stopping.send_to_recorder(self.folder, number)
        if why_not is None:
            self._signals_sent += 1
        sent = f"{number.name} was sent; if it still runs, k again"
        self._say(sent if why_not is None else f"not sent: {why_not}")
