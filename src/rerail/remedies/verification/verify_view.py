"""What a person sees while a fix is being verified: lines, and on a terminal how it stands now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


class Lines:
    """One paragraph per thing said, through `write`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def said(self, text: str) -> None:
        self._write(text)

    def moved(self, text: str) -> None:
        pass


class Screen:
    """The same, with the state of the run under way redrawn below."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self.live: Live = Live(console=console, refresh_per_second=4, transient=True)

    def said(self, text: str) -> None:
        self._console.print(text, markup=False)

    def moved(self, text: str) -> None:
        from rich.text import Text

        self.live.update(Text(f"{text}. Ctrl-C keeps everything."))
