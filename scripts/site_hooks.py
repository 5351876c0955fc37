"""Let the pages of docs/ be read as a site, as they are read in the repository.

In: the pages as mkdocs reads them. Out: the same, with what they point at outside docs/ as pages of
the site (CONTRIBUTING, source files); a list that follows its sentence at once is made a list, as
every other reader of Markdown does; recipes and pages that mkdocs.yml does not name in the menu.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]*)")
_FENCE = re.compile(r" *(```|~~~)")
_LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".toml": "toml", ".txt": "text"}


def on_config(config: Any) -> Any:
    """The menu: all recipes, and at its end what nobody has put into a place of its own."""
    for section in config.nav:
        if "Recipes" in section:
            recipes = sorted(p.name for p in (DOCS / "recipes").glob("*.md"))
            recipes.sort(key=lambda name: name != "index.md")
            section["Recipes"] = [f"recipes/{name}" for name in recipes]
    named = set(_paths_in(config.nav))
    rest = sorted(page.name for page in DOCS.glob("*.md") if page.name not in named)
    if rest:
        config.nav.append({"More": rest})
    return config


def _paths_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _paths_in(part)


def place_of(path: Path) -> str | None:
    """Where a file of the repository is in the site; None if it is in no page's interest."""
    if path.is_relative_to(DOCS):
        if path.is_dir():
            return f"{path.relative_to(DOCS).as_posix()}/index.md"
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return f"project/{name}"
    return f"source/{name}/index.md" if path.is_dir() else f"source/{name}.md"


def path_of(place: str) -> Path:
    """The file of the repository that a page of the site is made of."""
    if place.startswith("project/"):
        return ROOT / place.removeprefix("project/")
    if place.startswith("source/"):
        return ROOT / place.removeprefix("source/").removesuffix(".md")
    return DOCS / place


def links_of(text: str, folder: Path) -> dict[str, Path]:
    """What is linked there, by how it is written, and is a file of the repository."""
    found = {}
    for link, _ in _LINK.findall(text):
        target = (folder / link).resolve()
        if not _SCHEME.match(link) and target.exists() and target.is_relative_to(ROOT):
            found[link] = target
    return found


def on_files(files: Files, config: Any) -> Files:
    waiting = [DOCS / file.src_uri for file in files if file.src_uri.endswith(".md")]
    while waiting:
        path = waiting.pop()
        text = path.read_text(encoding="utf-8")
        for target in links_of(text, path.parent).values():
            place = place_of(target)
            if place is None or files.get_file_from_path(place) is not None:
                continue
            if target.is_relative_to(DOCS):
                continue  # a folder without an index: mkdocs complains
            files.append(File.generated(config, place, content=content_of(target)))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def content_of(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    title = path.relative_to(ROOT).as_posix()
    head = f"---\nsearch:\n  exclude: true\n---\n# {title}\n\n"
    if path.is_dir():
        names = sorted(p.name + ("/" if p.is_dir() else "") for p in path.iterdir())
        return head + "\n".join(f"- `{n}`" for n in names if not n.startswith(("_", ".")))
    language = _LANGUAGES.get(path.suffix, "text")
    return f"{head}````{language}\n{path.read_text(encoding='utf-8')}\n````\n"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    place = page.file.src_uri
    if place.startswith("source/"):
        return markdown
    links = links_of(markdown, path_of(place).parent)

    def rewritten(match: re.Match[str]) -> str:
        target = links.get(match[1])
        to = place_of(target) if target is not None else None
        if to is None:
            return match[0]
        return posixpath.relpath(to, posixpath.dirname(place) or ".") + (match[2] or "")

    return with_lists(_LINK.sub(rewritten, markdown))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Nothing is fetched from elsewhere while somebody reads."""
    if fetched := _FETCHED.findall(output):
        raise PluginError(f"{page.file.src_uri} would fetch {fetched[0]}")
    return output


def with_lists(markdown: str) -> str:
    """An empty line before a list that has none."""
    lines: list[str] = []
    in_code = False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        before = lines[-1] if lines else ""
        begins = _ITEM.match(line) and before.strip() and not before.startswith((" ", "|"))
        if begins and not in_code and not _ITEM.match(before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"
