"""What the documents point at is there: links, headings, functions, the names in a room's door."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import rerail
from rerail.cli._discovery import command_names

PACKAGE = Path(rerail.__file__).parent
ROOT = PACKAGE.parent.parent
# Not the whole tree: it also holds virtual environments and what the tools leave behind.
FOLDERS = (".github", "benchmarks", "docs", "scripts", "src", "studies", "tests", "workloads")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
MOST_FUNCTIONS = 15  # of the walkthrough: what a person can keep in the head at once

_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_NAMED_FUNCTION = re.compile(r"\[`(\w+)`\]\(([^)]+)\)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def links_in(text: str) -> Iterator[str]:
    """Where the text's inline links lead; what stands in code is an example and leads nowhere."""
    prose = _CODE.sub("code", _FENCE.sub("", text))
    yield from _LINK.findall(prose)


@cache
def headings_of(page: Path) -> frozenset[str]:
    """The anchors of a page, made from its headings as the usual renderers do."""
    lines = _FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    titles = [line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line)]
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def what_is_wrong_with(link: str, page: Path) -> str | None:
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return "is not there"
    if not target.is_relative_to(ROOT):
        return "is outside the repository"
    if heading and (target.suffix != ".md" or heading not in headings_of(target)):
        return "has no such heading"
    return None


def test_the_pages_were_found() -> None:
    found = {name_of(page) for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/walkthrough.md", "docs/causes/index.md"} <= found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = links_in(page.read_text(encoding="utf-8"))
    wrong = {link: what_is_wrong_with(link, page) for link in links if not _SCHEME.match(link)}
    assert {link: why for link, why in wrong.items() if why} == {}


def test_a_broken_link_is_noticed() -> None:
    page = ROOT / "docs" / "architecture.md"
    text = "[a](no-such.md) `[b](code.md)` [`c`](run-folder.md#vitals)\n```\n[d](fenced.md)\n```\n"
    assert list(links_in(text)) == ["no-such.md", "run-folder.md#vitals"]
    assert what_is_wrong_with("no-such.md", page) == "is not there"
    assert what_is_wrong_with("run-folder.md#no-such", page) == "has no such heading"
    assert what_is_wrong_with("run-folder.md#vitals", page) is None


def test_source_files_that_pages_name_are_there() -> None:
    """By the end of their path, as people write them: `store/bounds.py`, `test_house.py`."""
    named = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|c|h|toml)|test_\w+\.py)`")
    placeholder = re.compile(r"(?<![a-z])[A-Z]{2,}(?![a-z])")  # `target_NAME.py`
    files = [f"/{name_of(path)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    wrong = [
        f"{name_of(page)}: {name}"
        for page in PAGES
        for name in named.findall(page.read_text(encoding="utf-8"))
        if not placeholder.search(name) and not any(file.endswith(f"/{name}") for file in files)
    ]
    assert wrong == []


@cache
def packages() -> frozenset[str]:
    return frozenset(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def paths_in(text: str) -> set[str]:
    """Paths of our own source files: those that begin with one of our folders or packages."""
    ours = "|".join(("src/rerail", "tests", "benchmarks", "scripts", "studies", *packages()))
    inside = r"[A-Za-z_][\w-]*(?:/[\w.-]+)*"
    return set(re.findall(rf"(?<![\w/.\-*~}}])(?:{ours})/{inside}\.(?:py|toml)\b", text))


def modules_in(text: str) -> set[str]:
    """Dotted names of two parts in rerail, such as `rerail.store.Store`."""
    return set(re.findall(r"(?<![\w./])rerail\.[a-z]\w*\.[A-Za-z]\w*", text))


def is_module_or_name(dotted: str) -> bool:
    """Whether it is a module, or a name that its package gives."""
    _, package, last = dotted.split(".")
    folder = PACKAGE / package
    if any((folder / last).glob("*.*")) or any(folder.glob(f"{last}.*")):
        return True
    if not folder.is_dir() and not folder.with_suffix(".py").exists():
        return False
    return hasattr(importlib.import_module(f"rerail.{package}"), last)


def test_modules_that_texts_name_are_there() -> None:
    """In pages, and in what source files say of each other; a changelog tells of what was."""
    sources = [path for kind in ("*.py", "*.toml") for path in PACKAGE.rglob(kind)]
    texts = [page for page in PAGES if page.name != "CHANGELOG.md"] + sources
    placeholder = re.compile(r"(?<![a-z])[A-Z]{2,}(?![a-z])|/my-")
    wrong = []
    for path in texts:
        text = path.read_text(encoding="utf-8")
        files = [name for name in paths_in(text) if not placeholder.search(name)]
        wrong += [
            f"{name_of(path)}: {name}"
            for name in files
            if not (ROOT / name).exists() and not (PACKAGE / name).exists()
        ]
        wrong += [
            f"{name_of(path)}: {name}" for name in modules_in(text) if not is_module_or_name(name)
        ]
    assert wrong == []


def test_a_module_that_is_gone_is_noticed() -> None:
    text = "see evidence/run/gone.py, `store/bounds.py` and rerail.remedies.verification"
    assert paths_in(text) == {"evidence/run/gone.py", "store/bounds.py"}
    assert modules_in(text) == {"rerail.remedies.verification"}
    assert not is_module_or_name("rerail.remedies.verification")
    assert not is_module_or_name("rerail.investigation.session")
    assert is_module_or_name("rerail.store.Store") and is_module_or_name("rerail.store.bounds")


def test_the_walkthrough_names_functions_that_are_where_it_says() -> None:
    page = ROOT / "docs" / "walkthrough.md"
    named = _NAMED_FUNCTION.findall(page.read_text(encoding="utf-8"))
    assert 10 <= len(named) <= MOST_FUNCTIONS
    for name, link in named:
        tree = ast.parse((page.parent / link).read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in defined, f"{link} has no function {name}"


def door_rows() -> dict[str, str]:
    """By room, what the table of docs/architecture.md says of its door."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))


def public_names(room: str) -> set[str]:
    """What a room's door gives, and what the classes and modules that it gives have in turn."""
    module = importlib.import_module(f"rerail.{room}")
    if room == "platform":  # a toolbox: its modules are its door
        stems = {path.stem for path in (PACKAGE / room).glob("*.py")} - {"__init__"}
        given = {stem: importlib.import_module(f"rerail.platform.{stem}") for stem in stems}
    else:
        given = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    names = set(given)
    for value in given.values():
        if isinstance(value, type | ModuleType):
            names |= set(dir(value))
    return names


def test_the_table_of_doors_has_every_room() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"api"}
    assert set(door_rows()) == rooms


@pytest.mark.parametrize("room", sorted(door_rows()))
def test_a_door_has_the_names_that_the_table_gives_it(room: str) -> None:
    known = public_names(room) | set(command_names()) | {"import"}  # `isolate --json` and the like
    spans = [span for span in re.findall(r"`([^`]+)`", door_rows()[room]) if "/" not in span]
    wrong = [span for span in spans if re.split(r"\W", span)[0] not in known]
    assert wrong == []
