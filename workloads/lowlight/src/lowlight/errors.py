"""What stops the program on purpose: each says what is wrong, where, and what to type next."""

from __future__ import annotations


class LowlightError(Exception):
    """A reason to stop that the user can do something about; the command prints it and ends."""

    exit_status = 2


class NotFiniteError(LowlightError):
    """The loss or a gradient became NaN or Inf."""

    exit_status = 3
