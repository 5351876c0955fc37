"""Sentences for people: what a name of a file, a run or a process holds is shown, not obeyed.

In: text with anything in it. Out: the same on standard output or error, fit to be shown.
"""

from __future__ import annotations

import click

from rerail.platform.os_text import shown


def echo(text: str, *, err: bool = False) -> None:
    """Print the text and a line end."""
    click.echo(shown(text), err=err)
