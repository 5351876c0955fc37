"""The compiled catalogue: used when it is that of the files, and never trusted otherwise."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue, loader
from rerail.errors import FaultyCause
from rerail.platform import compiled_data as compiled
from rerail.platform.compiled_data import digest, keep_compiled, read_compiled


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / compiled.NAME
    keep_compiled(path, loader.compile_unchecked(loader.source_files()))
    return path


def wanted() -> str:
    return digest(loader.source_files(), loader.MADE_BY)


def test_it_says_what_the_files_say(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_compiled(kept, wanted()) == loader.read_tables()
    assert sorted(kept.parent.iterdir()) == [kept]
    monkeypatch.setattr(loader, "COMPILED", kept)
    assert loader.load_catalogue.__wrapped__() == load_catalogue()


def test_a_stale_one_is_made_anew(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = {**json.loads(kept.read_text(encoding="utf-8")), "digest": "of something else"}
    kept.write_text(json.dumps(stale), encoding="utf-8")
    assert read_compiled(kept, wanted()) is None
    monkeypatch.setattr(loader, "COMPILED", kept)
    assert loader.load_catalogue.__wrapped__() == load_catalogue()
    assert read_compiled(kept, wanted()) is not None


@pytest.fixture
def without_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a built package: compiled.json, and no cause files."""
    path = tmp_path / compiled.NAME
    keep_compiled(path, loader.compile_unchecked())
    for name, where in (
        ("CAUSES", "causes"),
        ("SYMPTOMS", "symptoms"),
        ("FIXES", "fixes"),
        ("COMPILED", path.name),
    ):
        monkeypatch.setattr(loader, name, tmp_path / where)
    monkeypatch.setattr(loader, "WHAT_WHERE", tmp_path / "what_where.toml")
    return path


def test_a_built_package_needs_no_cause_files(without_sources: Path) -> None:
    expected = load_catalogue()
    assert loader.load_catalogue.__wrapped__() == expected
    elsewhere = without_sources.rename(without_sources.with_name("in a cache"))
    without_sources.symlink_to(elsewhere)  # as uv --link-mode=symlink and Bazel install
    assert loader.load_catalogue.__wrapped__() == expected


def test_a_built_package_without_its_catalogue_says_so(without_sources: Path) -> None:
    without_sources.unlink()
    with pytest.raises(FaultyCause, match="is damaged or missing"):
        loader.load_catalogue.__wrapped__()


def test_the_digest_is_of_content_and_place(tmp_path: Path) -> None:
    one = tmp_path / "gpu" / "a.toml"
    one.parent.mkdir()
    one.write_text("x")
    before = digest([one], [])
    one.write_text("y")
    assert digest([one], []) != before
    one.write_text("x")
    assert digest([one], []) == before
    other = tmp_path / "data" / "a.toml"
    other.parent.mkdir()
    other.write_text("x")
    assert digest([other], []) != before


@pytest.mark.parametrize("text", ["", "[", "[]", "null", '{"tables": []}', "[" * 100_000, "\0"])
def test_what_is_no_such_document_does_not_count(tmp_path: Path, text: str) -> None:
    path = tmp_path / compiled.NAME
    path.write_text(text)
    assert read_compiled(path, wanted()) is None


def test_a_link_a_pipe_and_a_folder_do_not_count(kept: Path, tmp_path: Path) -> None:
    link, pipe, folder = (tmp_path / name for name in ("link", "pipe", "folder"))
    link.symlink_to(kept)
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (link, pipe, folder, tmp_path / "missing"):
        assert read_compiled(path, wanted()) is None


def test_one_that_is_too_large_or_somebody_elses_does_not_count(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_MOST_BYTES", 1000)
    assert read_compiled(kept, wanted()) is None
    monkeypatch.undo()
    assert read_compiled(kept, wanted()) is not None
    others = Path(compiled.__file__).stat().st_uid + 1
    monkeypatch.setattr(compiled, "_trusted_owners", lambda: {others})
    assert read_compiled(kept, wanted()) is None


def test_where_nothing_can_be_written_a_start_does_not_fail(tmp_path: Path) -> None:
    keep_compiled(tmp_path / "no such folder" / compiled.NAME, "{}")
    taken = tmp_path / compiled.NAME
    taken.mkdir()
    (taken / "file").touch()
    keep_compiled(taken, "{}")
    assert list(tmp_path.iterdir()) == [taken]
