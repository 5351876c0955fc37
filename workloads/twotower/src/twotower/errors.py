"""What stops the program on purpose: each says what is wrong, where, and what to type next."""

from __future__ import annotations

from pathlib import Path


class TwotowerError(Exception):
    """A reason to stop that the user can do something about; the command prints it and ends."""

    exit_status = 2


class BadDataError(TwotowerError):
    """Data refused before the first step: which file, which array, which row."""

    def __init__(
        self, path: Path, what: str, array: str | None = None, row: int | None = None, do: str = ""
    ) -> None:
        self.path, self.array, self.row, self.what = path, array, row, what
        place = str(path)
        if array is not None:
            place += f": {array}" + (f"[{row}]" if row is not None else "")
        super().__init__(f"{place}: {what}" + (f"\n{do}" if do else ""))


class NotFiniteError(TwotowerError):
    """The loss or a gradient became NaN or Inf; the batch that did it has been saved."""

    exit_status = 3
