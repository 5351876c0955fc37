"""The search for checkpoints finds what `glob` finds, and ends whatever lies below the folder."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.checkpoints import Choice, Soundness, choose, choose_checkpoint, find_checkpoints
from rerail.checkpoints.search import Search

NAMES = st.sampled_from(["a", "b.pt", "step-10.pt", ".hidden", "[x].pt", "é"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PARTS = st.sampled_from(["*", "**", "*.pt", "a", "b.pt", ".h*", "[[]x].pt", "step-?0.pt", ".."])
PATTERNS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


@given(paths=st.lists(PATHS, max_size=8), pattern=PATTERNS)
def test_it_finds_what_glob_finds(
    paths: list[str], pattern: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tree") / "within"
    folder.mkdir()
    for path in paths:
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch()
        except OSError:
            continue  # a file of that name is there already
    wanted = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207
    files = {os.path.normpath(name) for name in wanted if (folder / name).is_file()}
    found = Search().matches(pattern, folder)
    assert {os.path.normpath(name) for name in found if (folder / name).is_file()} == files


def test_links_to_folders_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "1.pt").write_bytes(b"x")
    for number in range(4):
        (tmp_path / "deep" / f"back{number}").symlink_to(tmp_path)
    (tmp_path / "root").symlink_to("/")
    assert find_checkpoints("**/*.pt", tmp_path) == [Path("deep/1.pt")]
    assert not any(path.is_symlink() for path in Search().files_below(tmp_path))


def test_a_link_that_the_pattern_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "1.pt").write_bytes(b"x")
    (tmp_path / "run").symlink_to(tmp_path / "scratch")
    assert find_checkpoints("run/*.pt", tmp_path) == [Path("run/1.pt")]
    assert len(find_checkpoints("*/*.pt", tmp_path)) == 1


def test_a_search_that_is_too_large_ends_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tmp_path / f"{number}.pt").write_bytes(b"")
    bounded = Search(most_names=10)
    assert len(list(bounded.matches("*.pt", tmp_path))) == 10
    assert bounded.cut_short == "it ended after 10 names"
    monkeypatch.setattr("rerail.checkpoints.choose.Search", lambda: Search(most_names=10))
    said = choose_checkpoint("*.pt", tmp_path).passed_over()
    assert "after 10 names" in said[-1] and "**" in said[-1]


def test_many_damaged_checkpoints_are_told_in_four_sentences() -> None:
    torn = tuple(Soundness(Path(f"{n}.pt"), "checkpoint", "it is empty") for n in range(20_000))
    said = Choice(None, torn, len(torn)).passed_over()
    assert len(said) == 4
    assert said[-1] == "19997 more checkpoints are passed over as well"


def test_many_small_files_are_compared_with_their_siblings_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 20,000 of them, asking for every size again for each took more than six minutes."""
    for number in range(300):
        path = tmp_path / f"{number:03}.bin"
        path.write_bytes(b"a" * (8 if number >= 200 else 160))
        os.utime(path, (number, number))
    asked: list[Path] = []
    size = choose._file_size
    monkeypatch.setattr(choose, "_file_size", lambda path: asked.append(path) or size(path))
    found = choose_checkpoint("*.bin", tmp_path)
    assert found.chosen is not None and found.chosen.path == Path("199.bin")
    assert len(found.skipped) == 100
    assert len(asked) == 300
