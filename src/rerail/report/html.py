"""The report as one HTML file that needs nothing else: no network, no other file.

In: a `Document`. Out: text of less than two megabytes. Promises: no text of the run can become
markup or script. Everything goes through jinja2's escaping; the charts' data is JSON in a data
block with every character escaped that could end it; and a content security policy lets the
browser run the two scripts that are ours, by their hashes, and load nothing at all.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from typing import Any

from rerail.platform.os_text import shown_value
from rerail.report.document import (
    Block,
    CauseView,
    Chart,
    Document,
    Facts,
    Listing,
    Paragraph,
    Table,
)
from rerail.report.numbers import chart_table
from rerail.wording import percent

LARGEST_BYTES = 1_900_000
_SOURCE_SECTIONS = {
    "stack": ("crash", "stall"),
    "vitals": ("timeline",),
    "exit": ("processes",),
    "maps": ("libraries",),
    "history": (),
}


def render(document: Document) -> str:
    """The page. A document too large for one page loses folded blocks first, then the longest."""
    document = shown_value(document)
    page = _render(document)
    while len(page.encode("utf-8", "replace")) > LARGEST_BYTES:
        smaller = _without_largest_block(document)
        if smaller is None:
            break
        document = smaller
        page = _render(document)
    return page


def _render(document: Document) -> str:
    template = _environment().get_template("report.html")
    style, script = _style(), _script()
    page: str = template.render(
        document=document,
        style=style,
        script=script,
        policy=_policy(style, script),
        chart_data=as_data_block([_chart_data(chart) for chart in document.charts()]),
        kind_of=_kind_of,
        link_of=functools.partial(_link_of, _anchors(document)),
        table_of=chart_table,
    )
    return page


def macros(document: Document, link_of: Callable[[str], str]) -> Any:
    """What the page writes blocks with (`render`, `proof`), for a page that has a frame of its own.

    `link_of` says where on that page a source can be seen. Texts come out escaped.
    """
    empty = replace(document, sections=[], facts=Facts([]), proof=None)
    return (
        _environment()
        .get_template("report.html")
        .make_module(
            {
                "document": empty,
                "style": "",
                "script": "",
                "policy": "",
                "chart_data": "",
                "kind_of": _kind_of,
                "link_of": link_of,
                "table_of": chart_table,
            }
        )
    )


@functools.lru_cache(maxsize=1)
def _environment() -> Any:
    import jinja2  # late: the import costs what a whole `rerail run` may cost

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rerail.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment


def asset(name: str) -> str:
    """A file of the page's own look, as text."""
    return (resources.files("rerail.report") / "assets" / name).read_text(encoding="utf-8")


@functools.lru_cache(maxsize=1)
def _style() -> str:
    return asset("uPlot.min.css") + "\n" + asset("report.css")


@functools.lru_cache(maxsize=1)
def _script() -> str:
    licence = asset("LICENSE.uPlot").strip()
    scripts = [asset(name) for name in ("uPlot.iife.min.js", "drawing.js", "report.js")]
    return "\n".join([f"/*\nuPlot\n{licence}\n*/", *scripts])


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_data_block(value: Any) -> str:
    """JSON that is safe between <script> tags, whatever texts it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII: no U+2028 either
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _chart_data(chart: Chart) -> dict[str, Any]:
    return {
        "name": chart.name,
        "unit": chart.unit,
        "axis": _axis_words(chart),
        "x": chart.x,
        "log": chart.is_logarithmic,
        "marks": [{"t": round(mark.t_seconds, 2), "label": mark.label} for mark in chart.marks],
        "series": [
            {"label": s.label, "kind": s.kind, "tone": s.tone, "values": _numbers(s.values)}
            for s in chart.series
        ],
    }


def _axis_words(chart: Chart) -> str:
    """What the numbers are; the ticks of bytes and seconds carry their unit themselves."""
    has_units = chart.unit in ("bytes", "seconds") or len(chart.series) > 1
    return chart.title if has_units else chart.series[0].label


def _numbers(values: list[float | None]) -> list[float | int | None]:
    """Whole numbers without their ".0": half the size for bytes and counts."""
    return [int(v) if v is not None and v.is_integer() else v for v in values]


def _kind_of(block: Block) -> str:
    names: dict[type, str] = {
        Paragraph: "paragraph",
        Table: "table",
        Facts: "facts",
        Listing: "listing",
        CauseView: "cause",
        Chart: "chart",
    }
    return names[type(block)]


def _anchors(document: Document) -> set[str]:
    found = {section.anchor for section in document.sections}
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Listing):
                found |= {f"L{line.number}" for line in block.lines if line.number is not None}
    return found


def _link_of(anchors: set[str], source: str) -> str:
    """Where on this page a source can be seen; empty if nowhere."""
    kind, _, place = source.partition(":")
    if kind == "output" and f"L{place}" in anchors:
        return f"L{place}"
    return next((anchor for anchor in _SOURCE_SECTIONS.get(kind, ()) if anchor in anchors), "")


def _weight(block: Block) -> int:
    """Roughly how many characters a block takes."""
    if isinstance(block, Table):
        return sum(len(cell) + 12 for row in block.rows for cell in row)
    if isinstance(block, Listing):
        return sum(len(line.text) + 60 for line in block.lines)
    if isinstance(block, Chart):
        return sum(8 * len(series.values) for series in block.series)
    return 0


def _without_largest_block(document: Document) -> Document | None:
    candidates = [
        (getattr(block, "is_folded", False), _weight(block), s, b)
        for s, section in enumerate(document.sections)
        for b, block in enumerate(section.blocks)
        if _weight(block) > 2000
    ]
    if not candidates:
        return None
    _, _, s, b = max(candidates)
    sections = list(document.sections)
    blocks = list(sections[s].blocks)
    caption = getattr(blocks[b], "caption", "") or getattr(blocks[b], "title", "") or "A part"
    blocks[b] = Paragraph(f"{caption}: left out, too large for one page; see the run folder.")
    sections[s] = replace(sections[s], blocks=blocks)
    return replace(document, sections=sections)
