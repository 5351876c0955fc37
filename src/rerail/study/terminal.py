"""The table of a study for a terminal of 80 columns.

In: a `StudyTable`. Out: text through rich: the cells, mean and spread over seeds, why cells died
and what was done about it, and what the axes do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rerail.study.cells import label_of, text_of
from rerail.study.effects import Effects, Summary
from rerail.study.state import CellState
from rerail.study.table import StudyTable, causes_of, remedies_of
from rerail.wording import bytes_in_words, seconds_in_words, share_in_percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS = {"done": "green", "failed": "red", "running": "cyan", "waiting": "dim"}


def show(table: StudyTable, console: Console) -> None:
    import textwrap

    from rich.text import Text

    show_cells(table, console)
    if table.has_seeds and table.metrics:
        console.print(_configurations(table))
    for line in (*death_lines(table), *effect_lines(table)):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        console.print(Text(textwrap.fill(line, console.width, subsequent_indent=indent)))


def show_cells(table: StudyTable, console: Console) -> None:
    """Only how each cell stands."""
    console.print(f"{table.name}: {table.headline}", markup=False)
    console.print(_cells(table))


def _cells(table: StudyTable) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    names = [_in_lines(state.cell.name) for state in table.cells]
    widest = max((len(line) for name in names for line in name.splitlines()), default=0)
    grid.add_column("cell", overflow="fold", min_width=min(widest, 22))
    grid.add_column("state", no_wrap=True)
    for metric in table.metrics:
        grid.add_column(metric.name, justify="right", no_wrap=True)
    grid.add_column("time", justify="right", no_wrap=True)
    grid.add_column("memory", justify="right", no_wrap=True)
    stories = [_story(state) for state in table.cells]
    if any(stories):
        widest = max(len(line) for story in stories for line in story.splitlines() or [""])
        grid.add_column("died of, + run with", overflow="fold", min_width=min(widest, 24))
    for state, story in zip(table.cells, stories, strict=True):
        row = [
            Text(_in_lines(state.cell.name)),
            Text(_state(state), style=_COLOURS[state.state]),
            *(Text(number(state.metrics.get(metric.name))) for metric in table.metrics),
            Text(seconds_in_words(state.last.seconds) if state.last and state.last.seconds else ""),
            Text(bytes_in_words(state.peak_rss_bytes) if state.peak_rss_bytes else ""),
        ]
        if any(stories):
            row.append(Text(story))
        grid.add_row(*row)
    return grid


def _in_lines(name: str, width: int = 22) -> str:
    """A long name broken between its parameters, not within a number."""
    lines = [""]
    parts = name.split("_")
    for at, part in enumerate(parts):
        piece = part if at == len(parts) - 1 else f"{part}_"
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _state(state: CellState) -> str:
    tries = len(state.attempts)
    return f"{state.state} ({tries})" if tries > 1 else state.state


def _story(state: CellState) -> str:
    """Why it died, and the remedy that it was run with afterwards."""
    remedies = remedies_of(state)
    return "\n".join(filter(None, [causes_of(state), f"+ {remedies}" if remedies else ""]))


def _configurations(table: StudyTable) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    grid.add_column("mean ± spread over seeds", overflow="fold")
    for metric in table.metrics:
        grid.add_column(metric.name, justify="right", no_wrap=True)
    grid.add_column("seeds", justify="right")
    for each in table.configurations:
        grid.add_row(
            Text(each.name),
            *(Text(summary_in_words(each.metrics.get(metric.name))) for metric in table.metrics),
            Text(f"{each.done}/{each.cells}"),
        )
    return grid


def death_lines(table: StudyTable) -> Iterator[str]:
    """Every death, what it was, and what followed."""
    if table.deaths:
        yield "Deaths"
    for death in table.deaths:
        run = f" [{death.run}]" if death.run else ""
        yield f"  {death.cell}, attempt {death.attempt}: {death.cause_in_words}{run}"
        yield f"    {death.summary}"
        if death.decision:
            yield f"    {death.decision}"
    for state in table.cells:
        for problem in state.damage:
            yield f"  {state.cell.name}: done, but {problem}"
        for name, reason in state.missing_metrics.items():
            yield f"  {state.cell.name}: no {name}: {reason}"


def effect_lines(table: StudyTable) -> Iterator[str]:
    for name, found in table.effects.items():
        yield f"What {name} depends on"
        yield from effect_words(found)


def effect_words(found: Effects) -> Iterator[str]:
    for main in sorted(found.mains, key=lambda main: -main.size):
        levels = ", ".join(f"{text_of(v)}: {summary.mean:.4g}" for v, summary in main.levels)
        error = f" ± {main.standard_error:.2g}" if main.standard_error is not None else ""
        share = _share(main.share)
        yield f"  {label_of(main.axis)}: {main.size:.3g}{error} between levels{share}"
        yield f"    {levels}"
    for each in sorted(found.interactions, key=lambda each: -each.size):
        names = " × ".join(label_of(axis) for axis in each.axes)
        yield f"  {names}: {each.size:.3g} beyond both alone{_share(each.share)}"
    if found.noise is not None:
        yield f"  spread over seeds: {found.noise:.3g}"
    if found.left_out:
        names = ", ".join(f"{label_of(axis)}={text_of(v)}" for axis, v in found.left_out)
        yield f"  left out, as cells are missing there: {names}"


def _share(share: float | None) -> str:
    return "" if share is None else f", {share_in_percent(share)} of the variance"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"


def summary_in_words(summary: Summary | None) -> str:
    if summary is None:
        return "–"
    spread = f" ± {summary.spread:.2g}" if summary.spread is not None else ""
    return f"{summary.mean:.5g}{spread}"
