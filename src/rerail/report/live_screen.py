"""Drawing how a run stands: one screen, whatever its size.

In: a `LiveView`, a width and a height. Out: a rich renderable of at most that many lines, none
wider than the width. Colours say what the words say already, so that nothing is lost without them.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from rerail.live import (
    Gauge,
    LiveView,
    Loss,
    Memory,
    ProcessLine,
    Progress,
    one_line,
)
from rerail.platform.os_text import printable_line
from rerail.wording import (
    bytes_in_words,
    cut,
    duration_in_words,
    percent,
    rate_in_words,
    share_in_percent,
    standing_in_words,
)

_LABEL = 10
_BAR_WIDTH = 24
_SPARKS = "▁▂▃▄▅▆▇█"
_SOON_SECONDS = 600.0
_MOST_ALERTS = 3
_SHOWN_ELSEWHERE = ("gate", "growth", "stall")  # below, beside the memory, in the first line
_MOST_GAUGES = 12
_MOST_WRAPPED = 3
_MOST_NAME = 26  # of a process: "loader worker 12 of rank 3"


def render(view: LiveView, width: int = 80, height: int = 24) -> Group:
    """One screen, to be printed."""
    return Group(*screen_lines(view, width, height))


def screen_lines(view: LiveView, width: int, height: int) -> list[Text]:
    """One screen. What does not fit goes in this order: output, processes, never the rest."""
    top = [*_head(view, width), Text(""), *_measures(view), *_alerts(view)]
    processes = _processes(view.processes, max(3, min(8, height - len(top) - 6)))
    room = height - len(top) - len(processes) - 3
    lines = [*top, Text(""), *processes]
    if room > 0 and view.output:
        lines += [Text(""), Text("Last output", style="bold")]
        lines += [Text(f"  {text}", style="dim") for text in view.output[-room:]]
    for line in lines:
        line.no_wrap = True
        line.overflow = "ellipsis"
        line.truncate(width, overflow="ellipsis")
    return lines[:height]


def status_line(view: LiveView) -> str:
    """The same in one line, for where there is no screen to draw on."""
    parts = [view.headline]
    if view.progress:
        parts.append(_progress_words(view.progress))
    if view.loss and view.loss.latest is not None:
        parts.append(f"loss {view.loss.latest:.4g}")
    if view.memory:
        parts.append(_memory_words(view.memory))
    return " · ".join(part for part in parts if part)


def sparkline(values: Sequence[float]) -> str:
    """One character per value; an exclamation mark where it is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "!" * len(values)
    low, high = min(finite), max(finite)
    span = high - low
    drawn = []
    for value in values:
        if not math.isfinite(value):
            drawn.append("!")
        elif span == 0 or not math.isfinite(span):
            drawn.append(_SPARKS[0])
        else:
            drawn.append(_SPARKS[min(7, int((value - low) / span * 8))])
    return "".join(drawn)


def _head(view: LiveView, width: int) -> list[Text]:
    style = {"running": "green", "lost": "red"}.get(view.state, "green")
    label = f"{printable_line(view.label)} · " if view.label else ""
    lines = [Text(f"{label}{view.id}", style="bold")]
    style = "red" if view.is_bad else style
    if lines[0].cell_len + 2 + cell_len(view.headline) <= width:
        lines[0].append(f"  {view.headline}", style=style)
    else:
        lines += [Text(part, style=style) for part in textwrap.wrap(view.headline, width)]
    lines.append(Text(f"$ {one_line(view.command)}", style="dim"))
    if view.why:
        lines += _wrapped("Why", printable_line(view.why), width, "bold")
    if view.leading_cause:
        chance = view.leading_probability
        said = f" ({percent(chance)})" if chance is not None else ""
        lines.append(Text(f"Cause     {view.leading_cause}{said}", style="bold red"))
    if view.next_command:
        lines += _wrapped("Next", view.next_command, width, "")
    if view.story:
        lines.append(Text(f"Story     {view.story}"))
    for warning in view.warnings[:2]:
        lines.append(Text(f"Warning   {warning}", style="yellow"))
    return lines


def _wrapped(label: str, text: str, width: int, style: str) -> list[Text]:
    """Over up to three lines: what must be read whole."""
    parts = textwrap.wrap(text, max(20, width - _LABEL)) or [""]
    if len(parts) > _MOST_WRAPPED:
        parts = [*parts[: _MOST_WRAPPED - 1], cut(parts[_MOST_WRAPPED - 1] + " …", width - _LABEL)]
    names = [label, *([""] * len(parts))]
    return [_label(name).append(part, style=style) for name, part in zip(names, parts)]  # noqa: B905


def _alerts(view: LiveView) -> list[Text]:
    found = [f"! {alert.text}" for alert in view.alerts if alert.kind not in _SHOWN_ELSEWHERE]
    lines = [_label("Now" if not i else "").append(text, style="bold red")
             for i, text in enumerate(found[:_MOST_ALERTS])]  # fmt: skip
    styles = {False: "bold red", True: "green", None: "dim"}
    return lines + [
        _label("Gate").append(printable_line(gate.text), style=styles[gate.is_met])
        for gate in view.gates[:_MOST_ALERTS]
    ]


def _gauges(view: LiveView) -> list[Text]:
    """As many lines as it takes; what is near its limit in red."""
    line = _label("Machine")
    for i, gauge in enumerate(view.gauges[:_MOST_GAUGES]):
        line.append(" · " if i else "")
        line.append(_gauge(gauge), style="red" if gauge.is_near else "")
    return [line] if view.gauges else []


def _gauge(gauge: Gauge) -> str:
    if "disk" in gauge.name and gauge.limit:
        return f"{gauge.name} {bytes_in_words(gauge.limit - gauge.used)} free"
    of = f"{gauge.used:,.0f}" if gauge.unit == "count" else bytes_in_words(gauge.used)
    if gauge.limit:
        limit = f"{gauge.limit:,.0f}" if gauge.unit == "count" else bytes_in_words(gauge.limit)
        of = f"{of.removesuffix(limit.rpartition(' ')[2]).rstrip()}/{limit}"
    busy = "" if gauge.busy is None else f" {share_in_percent(gauge.busy)}"
    heat = "" if gauge.celsius is None else f" {gauge.celsius:.0f} °C"
    return f"{gauge.name} {of}{busy}{heat}"


def _measures(view: LiveView) -> list[Text]:
    lines = []
    if view.progress:
        lines += _progress(
            view.progress, view.processes, is_stalled=view.stalled_seconds is not None
        )
    if view.loss:
        lines.append(_loss(view.loss))
    if view.memory:
        lines += _memory(view.memory)
    lines += _gauges(view)
    return lines or [Text("Nothing was measured yet.", style="dim")]


def _progress(
    progress: Progress, processes: Sequence[ProcessLine], *, is_stalled: bool
) -> list[Text]:
    line = _label("Progress")
    if progress.done is not None and progress.total:
        line.append(f"{_bar(progress.done / progress.total)} ")
    line.append(_progress_words(progress))
    lines = [line]
    pace = []
    if is_stalled:
        pass  # what its pace was does not tell when it will be done
    elif progress.steps_per_second:
        pace.append(rate_in_words(progress.steps_per_second))
    elif progress.rate_text:
        pace.append(progress.rate_text)
    if progress.eta_seconds is not None:
        pace.append(f"{duration_in_words(progress.eta_seconds)} to go")
    if progress.last_progress_seconds_ago is not None and progress.last_progress_seconds_ago >= 2:
        pace.append(f"last progress {duration_in_words(progress.last_progress_seconds_ago)} before")
    if progress.slowest_step is not None:
        ranks = [process for process in processes if process.rank is not None]
        behind = [rank.rank for rank in ranks if rank.step == progress.slowest_step]
        who = f"rank {behind[0]}" if len(behind) == 1 else "the slowest rank"
        pace.append(f"{who} is at step {progress.slowest_step:,}")
    if pace:
        lines.append(_label("") + Text(", ".join(pace)))
    return lines


def _progress_words(progress: Progress) -> str:
    parts = []
    if progress.done is not None and progress.total is not None:
        parts.append(f"{progress.done:,}/{progress.total:,}")
    if progress.steps:
        parts.append(f"step {progress.steps:,}")
    elif progress.batches:
        parts.append(f"batch {progress.batches:,}")
    if progress.epoch is not None:
        parts.append(f"epoch {progress.epoch}")
    if progress.phase:
        parts.append(progress.phase)
    return " · ".join(parts)


def _loss(loss: Loss) -> Text:
    line = _label("Loss")
    line.append("not seen" if loss.latest is None else f"{loss.latest:.5g}")
    if loss.trend:
        line.append(f"  {sparkline(loss.trend)}")
    if loss.direction:
        line.append(f"  {loss.direction}")
    if loss.first_nonfinite_step is not None:
        line.append(f"  not finite since step {loss.first_nonfinite_step:,}", style="red")
    return line


def _memory(memory: Memory) -> list[Text]:
    line = _label("Memory")
    if memory.used_bytes is not None and memory.limit_bytes:
        share = memory.used_bytes / memory.limit_bytes
        line.append(f"{_bar(share)} ", style="red" if share > 0.9 else "")
    line.append(_memory_words(memory))
    lines = [line]
    more = [f"peak {bytes_in_words(memory.peak_rss_bytes)}"]
    style = ""
    if memory.growth_bytes_per_second:
        growth = f"growing {bytes_in_words(memory.growth_bytes_per_second)}/s"
        if memory.growth_bytes_per_step:
            growth += f" ({bytes_in_words(memory.growth_bytes_per_step)}/step)"
        more = [growth]
        if memory.seconds_to_limit is not None:
            more.append(f"full in {duration_in_words(memory.seconds_to_limit)}")
            style = "red" if memory.seconds_to_limit < _SOON_SECONDS else "yellow"
    second = _label("")
    if len(memory.trend) > 2:
        second.append(f"{sparkline(memory.trend)}  ")
    second.append(", ".join(more), style=style)
    lines.append(second)
    return lines


def _memory_words(memory: Memory) -> str:
    own = f"{bytes_in_words(memory.rss_bytes)} resident"
    if memory.used_bytes is None or memory.limit_bytes is None:
        return own
    used, limit = bytes_in_words(memory.used_bytes), bytes_in_words(memory.limit_bytes)
    return f"{own}; {memory.limit_name} {used} of {limit}"


def _processes(processes: Sequence[ProcessLine], most: int) -> list[Text]:
    if not processes:
        return []
    has_steps = any(process.step for process in processes)
    step = f"{'step':>11}" if has_steps else ""
    # Of a run that goes on, workers that ended well are only counted.
    has_living = any(process.is_alive for process in processes)
    telling = [p for p in processes if p.is_alive or p.died_badly or not has_living]
    is_all = len(telling) == len(processes) <= most
    shown = telling if is_all else telling[: most - 1]
    names = [standing_in_words(process) for process in shown]
    wide = min(max([17, *map(len, names)]), _MOST_NAME) + 1
    head = f"{'Process':<{wide}}{'pid':>8}{step}{'memory':>11}{'cpu':>7}  doing"
    lines = [Text(head, style="bold")]
    for process, who in zip(shown, names, strict=True):
        size = "" if process.rss_bytes is None else bytes_in_words(process.rss_bytes)
        cpu = "" if process.cpu_percent is None else share_in_percent(process.cpu_percent / 100)
        step = f"{f'{process.step:,}' if process.step else '':>11}" if has_steps else ""
        line = Text(f"{cut(who, _MOST_NAME):<{wide}}{process.pid:>8}{step}{size:>11}{cpu:>7}  ")
        doing = printable_line(process.doing) if process.doing else process.state
        line.append(doing, style="red" if process.died_badly else "")
        lines.append(line)
    rest = [process for process in processes if process not in shown]
    if rest:
        kinds = Counter(f"{p.role}, {p.state}" for p in rest)
        told = "; ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        lines.append(Text(f"and {told}", style="dim"))
    return lines


def _bar(share: float) -> str:
    full = round(min(1.0, max(0.0, share)) * _BAR_WIDTH)
    return "━" * full + "╌" * (_BAR_WIDTH - full)


def _label(text: str) -> Text:
    label = Text()
    label.append(f"{text:<{_LABEL}}", style="bold")
    return label
