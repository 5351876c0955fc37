"""What a person sees while trials run: lines, or on a terminal a block that is redrawn in place.

In: what is said, and how the trials under way stand. Out: text. What a trial asks and means is for
those who plan it to say (`isolation/trial_view.py`, `verification/view.py`).
"""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

WIDTH = 80
LINE_SECONDS = 60.0  # between two lines where nothing can be redrawn
_BAR = 20


class Standing(Protocol):
    """How the trials under way stand now."""

    def line(self) -> str: ...

    def block(self, width: int) -> Sequence[str]:
        """The whole view, line by line, none wider than `width`."""


class Watcher(Protocol):
    """Who is told while it works."""

    redraws: bool  # what is under way is seen: a trial is told of once it has ended

    def said(self, text: str) -> None: ...

    def moved(self, standing: Standing) -> None:
        """How the trials under way stand; replaces what was shown before."""

    def may_go_on(self, question: str) -> bool:
        """Asked where going on may be in vain or do harm; False where nobody answers."""


class Silent:
    """Nobody is told."""

    redraws = False

    def said(self, text: str) -> None:
        pass

    def moved(self, standing: Standing) -> None:
        pass

    def may_go_on(self, question: str) -> bool:
        return False


class Lines:
    """One line per thing said, and one a minute while trials are under way, through `write`."""

    redraws = False

    def __init__(
        self,
        write: Callable[[str], None],
        ask: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._ask = ask
        self._clock = clock
        self._wrote = clock()

    def said(self, text: str) -> None:
        self._wrote = self._clock()
        self._write(text)

    def moved(self, standing: Standing) -> None:
        if self._clock() - self._wrote >= LINE_SECONDS:
            self.said(standing.line())

    def may_go_on(self, question: str) -> bool:
        return self._ask is not None and self._ask(question)


class Screen:
    """The same, with the trials under way redrawn below what was said."""

    redraws = True

    def __init__(self, console: Console, ask: Callable[[str], bool] | None = None) -> None:
        from rich.live import Live

        self._console = console
        self._ask = ask
        self.live: Live = Live(console=console, refresh_per_second=4, transient=True)

    def said(self, text: str) -> None:
        self._console.print(text, markup=False)

    def moved(self, standing: Standing) -> None:
        from rich.text import Text

        drawn = standing.block(min(WIDTH, self._console.width))
        self.live.update(Text("\n".join(drawn), no_wrap=True, overflow="crop"))

    def may_go_on(self, question: str) -> bool:
        """Ask with the screen at rest: an answer cannot be typed into what is redrawn."""
        if self._ask is None:
            return False
        self.live.stop()
        try:
            return self._ask(question)
        finally:
            self.live.start()


def bar(share: float, width: int = _BAR) -> str:
    full = round(min(1.0, max(0.0, share)) * width)
    return "━" * full + "╌" * (width - full)


def how_far(exposure: float, ends: float | None, unit: str) -> str:
    """ "step 340 of about 1,200", "34 s of about 120 s"; "just started" before the first."""
    if unit == "seconds":
        words = f"{exposure:,.0f} s"
        return words + (f" of about {math.ceil(ends):,} s" if ends else "")
    if exposure < 1.0:
        return "starting" + (f", about {math.ceil(ends):,} {unit} to run" if ends else "")
    name = "step" if unit == "steps" else "batch"
    return f"{name} {exposure:,.0f}" + (f" of about {math.ceil(ends):,}" if ends else "")


def wrapped(lines: Sequence[str], width: int = WIDTH) -> list[str]:
    """None wider than `width`; a line's indent is kept, what belongs to it is indented further."""
    found = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        found += textwrap.wrap(
            line.strip(),
            width,
            initial_indent=indent,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    return found
