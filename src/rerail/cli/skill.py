"""Print or install a page that tells a coding assistant how to work with rerail."""

from __future__ import annotations

from pathlib import Path

import click

from rerail.cli._telling import echo


@click.command(name="skill", epilog="Example: rerail skill --install skills")
@click.option(
    "--install",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Put it into DIR/rerail/SKILL.md, where the assistant looks for skills.",
)
def command(folder: Path | None) -> int:
    """Print the Agent Skill of rerail: from a dead run to a proven fix, step by step."""
    from rerail.assistants import install_skill, skill_text

    if folder is None:
        click.echo(skill_text(), nl=False)
        return 0
    echo(f"written: {install_skill(folder)}")
    return 0
