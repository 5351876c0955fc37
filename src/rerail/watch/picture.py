"""Lines of text that change a little at every look: only those that changed are drawn again.

In: lines of rich text. Out: the widget that shows them. A screen that is drawn whole each time
costs several times as much as the look that it shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Picture(Widget):
    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []

    def show(self, lines: Sequence[Text]) -> None:
        """Draw these lines, each cut to the width by who made it."""
        before, self._lines = self._lines, list(lines)
        width = self.size.width
        for y in range(max(len(before), len(self._lines))):
            is_new = y >= len(before) or y >= len(self._lines)
            if is_new or not _is_same(before[y], self._lines[y]):
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width)
        # In the terminal's own colours: to work out a style for each line would cost more than it.
        return Strip(self._lines[y].render(self.app.console, end="")).adjust_cell_length(width)


def _is_same(one: Text, other: Text) -> bool:
    return one.plain == other.plain and one.spans == other.spans and one.style == other.style
