"""Every page with commands that can be run is run, from its first line to its last."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import DOCS, ROOT, blocks_of, page_notes, run_page, what_is_missing

PAGES = [
    page
    for page in sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
    if any(block.language == "console" for block in blocks_of(page))
]
RECIPES = sorted((DOCS / "recipes").glob("*.md"))


def _parameter(page: Path) -> object:
    marks = [pytest.mark.slow] if "slow" in page_notes(page) else []
    return pytest.param(page, marks=marks, id=page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", [_parameter(page) for page in PAGES])
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    missing = what_is_missing(page)
    if missing is not None:
        pytest.skip(missing)
    assert run_page(page, tmp_path) == []


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.name)
def test_a_recipe_is_run_or_says_why_not(page: Path) -> None:
    if page.name in ("index.md", "several-machines.md"):  # lists; the second names its tests
        return
    is_run = any(b.language == "console" and b.why_not_run is None for b in blocks_of(page))
    reasons = [b.why_not_run for b in blocks_of(page) if b.why_not_run]
    assert is_run or reasons, "no block of it is run, and none says <!-- not run: why -->"


def test_no_page_installs_from_a_registry_that_does_not_have_it() -> None:
    """With an extra, pip takes the installed rerail and adds the packages that the extra names."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    asked = re.compile(r"pip install (?:-\S+ )*'?rerail(?![\[\w/.-])")
    assert [page.name for page in pages if asked.search(page.read_text())] == []


def test_the_line_of_a_source_file_is_compared() -> None:
    from doc_pages import without_numbers

    assert without_numbers("KeyError in train.py:16 (step 4)") == (
        "KeyError in train.py:16 (step N)"
    )
    assert without_numbers("after 12.5 s") == without_numbers("after 3 s")


def test_a_page_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = ROOT / "docs" / "no-such-page.md"  # only its name is looked at
    text = tmp_path / "page.md"
    text.write_text(
        '```python title="a.py"\nprint("hello 3")\n```\n'
        "```console\n$ python a.py\nhello 4\n```\n"
        "```console\n$ python a.py\ngood bye\n```\n"
        "<!-- not run: it would end the world -->\n```console\n$ exit 127\n```\n"
        "```console\n$ no-such-program-here\n```\n"
    )
    assert not page.exists()
    (tmp_path / "run").mkdir()
    import doc_pages

    blocks = doc_pages.blocks_of(text)
    for block in blocks:
        block.page = page
    problems = run_page(text, tmp_path / "run")
    assert [problem.split("\n")[0].partition(": ")[2] for problem in problems] == [
        "does not say 'good bye'",
        "ended with 127",
    ]
