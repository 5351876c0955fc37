"""One cause of the catalogue as a page: what it is, how it is recognised, proven and cured.

The same text is shown by `rerail causes ID` and written to docs/causes/<id>.md.
"""

from __future__ import annotations

import textwrap

from rerail.catalogue import FAMILIES, Catalogue, Cause, Experiment, Remedy, fill

_SAFETY = {
    "safe": "safe",
    "changes-results": "changes results",
    "hides-it": "hides it, does not cure it",
}


def render(cause: Cause) -> str:
    """Markdown without trailing newline."""
    parts = [f"# {cause.title}", f"`{cause.id}` · {FAMILIES[cause.family]}"]
    parts += [cause.what_happened, "## How it comes about", cause.mechanism]
    parts += ["## What it looks like", _fenced(cause.matches)]
    if cause.near_misses:
        parts += ["## What it is not", _fenced(cause.near_misses)]
    if cause.experiments:
        parts += ["## What would prove it", *map(_experiment, cause.experiments)]
    parts += ["## What to do", *map(_remedy, cause.remedies)]
    if cause.outranks:
        named = ", ".join(f"`{other}`" for other in cause.outranks)
        parts += ["## What it explains", f"Seen together with it, these are its echo: {named}."]
    if cause.references:
        parts += ["## References", "\n".join(f"- <{link}>" for link in cause.references)]
    return "\n\n".join(parts)


def render_index(catalogue: Catalogue) -> str:
    """The list of all causes with links to their pages."""
    parts = ["# Causes of a dead training run"]
    for family, title in FAMILIES.items():
        rows = [f"- [`{c.id}`]({c.id}.md): {c.title}" for c in catalogue if c.family == family]
        parts += [f"## {title}", "\n".join(rows)]
    return "\n\n".join(parts)


def _fenced(examples: tuple[str, ...]) -> str:
    return "\n\n".join(f"```text\n{example}\n```" for example in examples)


def _change(change: tuple[str, ...]) -> str:
    return f" (`{'` `'.join(change)}`)" if change else ""


def _experiment(experiment: Experiment) -> str:
    return _bullet(f"{_of_no_run(experiment.expect)}{_change(experiment.change)}")


def _remedy(remedy: Remedy) -> str:
    note = f" {remedy.note}" if remedy.note else ""
    what = f"{_of_no_run(remedy.title)}{_change(remedy.change)}"
    return _bullet(f"**{_SAFETY[remedy.safety]}**: {what}.{note}")


def _of_no_run(template: str) -> str:
    """The sentence with what it says where nothing is known of a run."""
    return fill(template, {}) or template


def _bullet(text: str) -> str:
    text = text.replace("..", ".") if text.endswith("..") else text
    return textwrap.fill(
        text, 96, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )
