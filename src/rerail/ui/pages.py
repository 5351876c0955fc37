"""Plain values written as HTML.

In: what answers.py gives. Out: pages in which every text is escaped. Blocks of a report (proof,
causes, tables, listings) are written by the report's own macros, so that both look the same; what
is cited there links to its place on this page.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

import rerail
from rerail.platform.os_text import shown_value
from rerail.report import Document, html
from rerail.report.experiments import experiment_section
from rerail.wording import percent

_LINE = re.compile(r"output:(\d{1,12})", re.ASCII)
_TIME = re.compile(r"vitals:([\d.]{1,20})", re.ASCII)
# What the page shows in a way of its own.
_SHOWN_ELSEWHERE = ("timeline", "output")
_ON_GROUP_PAGE = ("What may be true", "Trials")
GLYPHS = {"live": "●", "stuck": "!", "failed": "✗", "swallowed": "!", "ok": "✓"}
STATE_WORDS = {
    "live": "live",
    "stuck": "stuck",
    "failed": "failed",
    "swallowed": "exit code 0, but not well",
    "ok": "ended well",
}


def render(template: str, written: str = "", **values: Any) -> str:
    """`written` is what this module wrote before: the only value that is not escaped."""
    from markupsafe import Markup

    shown = {**shown_value(values), "written": Markup(written)}
    page: str = _environment().get_template(template).render(version=rerail.__version__, **shown)
    return page


def render_document(template: str, document: Document, **values: Any) -> str:
    """A page with blocks of a report on it."""
    document = shown_value(document)
    anchors = {section.anchor for section in document.sections}
    macros = html.macros(document, functools.partial(link_of, anchors))
    return render(template, document=document, blocks=macros, **values)


def render_details(document: Document, *, is_live: bool = False) -> str:
    """What the top, the charts and the output leave; of a live run nothing is judged yet."""
    left_out = (*_SHOWN_ELSEWHERE, "verdict") if is_live else _SHOWN_ELSEWHERE
    kept = [s for s in document.sections if s.anchor not in left_out]
    return render_document("details.html", replace(document, sections=kept))


def render_experiments(kind: str, document: dict[str, Any], empty: Document) -> str:
    """What an investigation or a verification found, as the report writes it.

    Without its tables of trials and of beliefs: the page has rows and bars for those.
    """
    section = experiment_section({kind: document}) if document else None
    found = replace(empty, sections=[])
    if section is not None:
        blocks = [b for b in section.blocks if getattr(b, "caption", "") not in _ON_GROUP_PAGE]
        found = replace(found, sections=[replace(section, blocks=blocks)])
    return render_document("details.html", found)


def link_of(anchors: set[str], source: str) -> str:
    """Where on this page a source can be seen; the script takes lines and times from there."""
    if found := _LINE.fullmatch(source):
        return f"L{found[1]}"
    if found := _TIME.fullmatch(source):
        return f"t{found[1]}"
    kind = source.partition(":")[0]
    places = {"stack": ("crash", "stall"), "exit": ("processes",), "maps": ("libraries",)}
    return next((anchor for anchor in places.get(kind, ()) if anchor in anchors), "")


@functools.lru_cache(maxsize=1)
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rerail.ui", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["path_part"] = lambda text: quote(str(text), safe="")
    environment.filters["query"] = urlencode
    environment.globals.update(GLYPHS=GLYPHS, STATE_WORDS=STATE_WORDS)
    return environment


# Files that a page may load, and what they are. The look of the report is served as it is.
_REPORT_FILES = ("uPlot.iife.min.js", "uPlot.min.css", "report.css", "drawing.js", "LICENSE.uPlot")
_OWN_FILES = ("ui.css", "page.js", "charts.js", "run.js", "list.js", "compare.js", "icon.svg")
_KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".uPlot": "text/plain; charset=utf-8",
}


@functools.lru_cache(maxsize=32)
def static_file(name: str) -> tuple[bytes, str] | None:
    """A file and its media type; None for every name that is not listed."""
    kind = _KINDS.get(name[name.rfind(".") :], "")
    if name in _REPORT_FILES:
        return html.asset(name).encode(), kind
    if name in _OWN_FILES:
        return (resources.files("rerail.ui") / "static" / name).read_bytes(), kind
    return None
