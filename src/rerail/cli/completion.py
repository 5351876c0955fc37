"""Print what makes a shell complete commands, options, runs and causes.

In: the name of a shell. Out: its script on standard output; it asks `rerail` for what could be
typed each time, so it stays right when rerail is upgraded.
"""

from __future__ import annotations

import click

from rerail.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": "rerail completion bash > ~/.local/share/bash-completion/completions/rerail",
    "zsh": 'rerail completion zsh > "${fpath[1]}/_rerail"',
    "fish": "rerail completion fish > ~/.config/fish/completions/rerail.fish",
}


@click.command(
    name="completion",
    epilog="""\b
Example: rerail completion bash > rerail.bash; source rerail.bash
For every new shell:
  """
    + "\n  ".join(_HOW.values()),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete what you type after `rerail`.

    Commands, options, runs on record, causes, changes, and the words of the command after --.
    """
    from click.shell_completion import get_completion_class

    from rerail.cli import group

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"click cannot complete for {shell}", f"It can for {', '.join(SHELLS)}.")
    click.echo(kind(group, {}, "rerail", "_RERAIL_COMPLETE").source())
