"""Screens that stand over a run: text to scroll in, a question, help.

In: lines, or a question. Out: what is drawn; of a question, whether the answer was yes. Every text
is shown as it is: what looks like markup or an escape code in it is just text.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from rerail.watch.answers import matching
from rerail.wording import cut

HELP = """\
s      where every process is now: the stacks, your own code first
o      what it printed
e      why it died, or what is known so far
k      stop it, as Ctrl-C would; asks first
p      write a zip to send, secrets masked, into this folder
tab    the next run
l      the list of runs
/      only what has this text in it
r      look again at once
q esc  back, and in the end out

Nothing is written into the run's folder, and the command is not asked:
only its record is read. The stacks (s) are asked of its processes themselves.
"""


class FilterInput(Input):
    """One line at the foot of a screen; empty and left again it is gone."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self) -> None:
        super().__init__(placeholder="only what has this in it", compact=True)
        self.display = self.can_focus = False

    def begin(self) -> None:
        self.display = self.can_focus = True
        self.focus()

    def action_leave(self) -> None:
        self.value = ""
        self._end()

    async def action_submit(self) -> None:
        self._end()

    def _end(self) -> None:
        self.display = bool(self.value)
        self.can_focus = False  # keys are the screen's again
        self.screen.set_focus(None)
        self.post_message(self.Left())

    class Left(Message):
        """The filter stands, or is gone."""


class LinesScreen(Screen[None]):
    """Text to scroll in, with a filter."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "app.pop_screen", "back"),
        Binding("slash", "filter", "filter"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home,g", "end(0)", show=False),
        Binding("end,G", "end(1)", show=False),
    ]

    def __init__(self, title: str, lines: list[str] | None, *, at_end: bool = False) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._at_end = at_end
        self._is_composed = False

    def compose(self) -> ComposeResult:
        yield Static(Text(self._title, style="bold", no_wrap=True), id="title")
        with VerticalScroll(id="body", can_focus=False):
            yield Static(id="lines")
        yield FilterInput()
        yield Static(Text("q back  / filter  arrows and page keys scroll", style="dim"), id="keys")

    def on_mount(self) -> None:
        self._is_composed = True
        self.set_focus(None)
        self._draw()

    def set_lines(self, lines: list[str]) -> None:
        self._lines = lines
        self._draw()

    def _draw(self) -> None:
        if not self._is_composed:
            return
        if self._lines is None:
            text = Text("…", style="dim")
        else:
            found = matching(self._lines, self.query_one(FilterInput).value)
            text = Text("\n".join(found) if found else "Nothing has that in it.")
        text.no_wrap, text.overflow = True, "ellipsis"
        self.query_one("#lines", Static).update(text)
        if self._at_end and self._lines is not None:
            self.query_one("#body", VerticalScroll).scroll_end(animate=False)

    def on_input_changed(self) -> None:
        self._draw()

    def action_filter(self) -> None:
        self.query_one(FilterInput).begin()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#body", VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        body = self.query_one("#body", VerticalScroll)
        body.scroll_relative(y=pages * max(1, body.size.height - 1), animate=False)

    def action_end(self, is_last: int) -> None:
        body = self.query_one("#body", VerticalScroll)
        (body.scroll_end if is_last else body.scroll_home)(animate=False)


class Question(ModalScreen[bool]):
    """Yes only where y was typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,q,escape,enter", "answer(False)", "no"),
    ]

    def __init__(self, question: str, detail: str) -> None:
        super().__init__()
        self._question = question
        self._detail = detail

    def compose(self) -> ComposeResult:
        text = Text(cut(self._question, 200), style="bold")
        text.append(f"\n{self._detail}\n\n", style="not bold")
        text.append("y", style="bold").append(" yes    ", style="not bold")
        text.append("n", style="bold").append(" no", style="not bold")
        with Vertical(id="question"):
            yield Static(text)

    def action_answer(self, is_yes: bool) -> None:
        self.dismiss(is_yes)
