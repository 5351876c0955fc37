"""A report before it is written: sections of plain blocks.

The view builds one, the HTML and the Markdown writer each render it, and masking walks over it in
between: so what leaves the machine is masked once, before any encoding could hide a secret.
All texts are plain: no block holds markup, and escaping is the writers' business alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Paragraph:
    """A sentence or two, and a command to type if one follows from them."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Table:
    """`numeric` names the columns that are numbers, which are set to the right."""

    columns: list[str]
    rows: list[list[str]]
    caption: str = ""
    numeric: list[int] = field(default_factory=list)
    is_folded: bool = False
    marked: list[int] = field(default_factory=list)  # rows


@dataclass(frozen=True)
class Facts:
    """Names with values: a short list that a person reads first."""

    items: list[tuple[str, str]]


@dataclass(frozen=True)
class ListingLine:
    text: str
    number: int | None = None
    is_marked: bool = False
    is_own: bool = False  # the user's own code, among the frames of libraries


@dataclass(frozen=True)
class Listing:
    """Lines of output or of a stack, in a fixed-width font."""

    lines: list[ListingLine]
    caption: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Cited:
    """A sentence with where it can be seen: `output:1042`, `vitals:9.3`, …"""

    text: str
    source: str


@dataclass(frozen=True)
class RemedyView:
    title: str
    safety: str
    change: list[str]


@dataclass(frozen=True)
class CauseView:
    """`is_settled`: an experiment has said more than the probability can."""

    id: str
    title: str
    probability: float
    evidence_for: list[Cited] = field(default_factory=list)
    evidence_against: list[Cited] = field(default_factory=list)
    remedies: list[RemedyView] = field(default_factory=list)
    is_leading: bool = False
    is_settled: bool = False


SeriesKind = Literal["area", "line", "peak", "limit"]


@dataclass(frozen=True)
class Series:
    label: str
    values: list[float | None]
    kind: SeriesKind = "line"
    tone: int = 0  # which of the page's colours


@dataclass(frozen=True)
class Mark:
    """A moment worth a vertical line."""

    t_seconds: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A curve over the seconds of the run; `summary` says in words what it shows."""

    name: str
    title: str
    unit: Literal["bytes", "count", "seconds", "cores", "number"]
    x: list[float]
    series: list[Series]
    summary: str
    marks: list[Mark] = field(default_factory=list)
    is_logarithmic: bool = False


Block = Paragraph | Table | Facts | Listing | CauseView | Chart


@dataclass(frozen=True)
class Stage:
    """One station on the way from a guess to a proof, with its figure."""

    name: str
    state: Literal["done", "open", "failed"]
    text: str


@dataclass(frozen=True)
class Proof:
    """How sure the answer is, and the fix. `answer` is empty while no experiment has settled it."""

    stages: list[Stage]
    answer: str = ""
    is_good: bool = True
    fix: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)  # words, and what to type


@dataclass(frozen=True)
class Section:
    anchor: str
    title: str
    blocks: list[Block]


@dataclass(frozen=True)
class Document:
    title: str
    summary: str
    facts: Facts
    sections: list[Section]
    run_id: str
    generator: str
    is_bad: bool = True
    proof: Proof | None = None
    fix: RemedyView | None = None  # the first one, for the top of the page
    cause: str = ""  # the leading one, with its probability while nothing is settled

    def charts(self) -> list[Chart]:
        return [b for section in self.sections for b in section.blocks if isinstance(b, Chart)]
