"""Errors that a user sees: what happened, what to type next, and the exit status that says so.

Everything that a command can fail of is one of these; the command line prints
`message` and `help_text` and ends with `exit_status`, never with a traceback.
"""

from __future__ import annotations


class RerailError(Exception):
    """Something the user can act on."""

    exit_status = 2

    def __init__(self, message: str, help_text: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help_text = help_text
        if help_text:
            self.__notes__ = [help_text]  # below the message, where Python shows a traceback


class UsageError(RerailError):
    """The command line asked for something that does not exist or does not fit together."""


class UnreadableInput(RerailError):
    """A file, folder or stream that was named cannot be read as what it should be."""


class FaultyCause(RerailError):
    """A file of the catalogue is not complete; the message names every line that is to blame."""


class UnknownRun(RerailError):
    """No recorded run answers to this name, or more than one does."""


class StoreUnavailable(RerailError):
    """The folder that holds the runs cannot be used."""


class NotRecorded(RerailError):
    """The command was run, and there is no record of it."""
