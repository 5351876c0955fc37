"""What a person sees while a fix is being verified: lines, and on a terminal how it stands now."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rerail.experiments.isolation.trial_view import LINE_SECONDS, ask_beside, bar, how_far
from rerail.experiments.trials.exposure import Unit
from rerail.wording import percent, seconds_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_WIDTH = 80


class Lines:
    """One paragraph per thing said, and one a minute while a run is under way, through `write`."""

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

    def moved(self, lines: Sequence[str]) -> None:
        if self._clock() - self._wrote >= LINE_SECONDS:
            self.said("; ".join(line.strip() for line in lines))

    def may_go_on(self, question: str) -> bool:
        return self._ask is not None and self._ask(question)


class Screen:
    """The same, with the state of the run under way redrawn below."""

    def __init__(self, console: Console, ask: Callable[[str], bool] | None = None) -> None:
        from rich.live import Live

        self._console = console
        self._ask = ask
        self.live: Live = Live(console=console, refresh_per_second=4, transient=True)

    def said(self, text: str) -> None:
        self._console.print(text, markup=False)

    def moved(self, lines: Sequence[str]) -> None:
        from rich.text import Text

        width = min(_WIDTH, self._console.width)
        drawn = [*lines, "Ctrl-C keeps everything."]
        self.live.update(Text("\n".join(wrapped(drawn, width)), no_wrap=True, overflow="crop"))

    def may_go_on(self, question: str) -> bool:
        return ask_beside(self.live, self._ask, question)


def wrapped(lines: Sequence[str], width: int = _WIDTH) -> list[str]:
    """None wider than `width`; what belongs to a line is indented."""
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line, width, subsequent_indent="  ", break_on_hyphens=False, drop_whitespace=True
        )
    ]


def run_lines(
    question: str, exposure: float, ends: float | None, unit: Unit, pace: float | None
) -> list[str]:
    """What a run asks, and how far it is."""
    known = ends if ends is not None and math.isfinite(ends) and ends > 0.0 else None
    drawn = f"{bar(min(1.0, exposure / known))} " if known else ""
    left = ""
    if known and pace and exposure < known:
        left = f", about {seconds_in_words((known - exposure) / pace)} left"
    return [question, f"  {drawn}{how_far(exposure, known, unit)}{left}"]


def proof_lines(luck: float, confidence: float, used: float, budget: float) -> list[str]:
    """What the outcomes would mean, and what is believed now."""
    asked = percent(confidence, 1)
    return [
        f"  A crash refutes the fix. Clean to the end: proven to {asked}.",
        f"  By luck so far: {bar(luck)} {percent(luck, 1)}"
        f" (proven at {percent(1.0 - confidence, 1)})",
        f"{seconds_in_words(used)} of at most {seconds_in_words(budget)} used",
    ]
