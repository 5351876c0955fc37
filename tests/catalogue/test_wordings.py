"""The wordings: each pattern matches the lines beside it, and none of its near misses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rerail.errors import FaultyCause
from rerail.evidence.text import exits, fatal_lines, phases, progress, rank_words
from rerail.evidence.text.lines import Line
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform import wordings
from rerail.platform.compiled_data import digest, read_compiled
from rerail.platform.patterns import LinearPattern, linear
from rerail.platform.wordings import compiled_table, parts_of, source_files, source_table

Entry = tuple[str, dict[str, Any], LinearPattern]


def entries() -> list[Entry]:
    """(name, the entry as it is written, its pattern) of every file."""
    found = []
    for path in source_files():
        loaded = wordings.wordings(path.stem).entries
        for written, entry in zip(source_table(path)["wording"], loaded, strict=True):
            found.append((f"{path.stem}: {entry.name}", written, entry.pattern))
    return found


ENTRIES = entries()


def of(name: str) -> list[dict[str, Any]]:
    return source_table(wordings.FOLDER / f"{name}.toml")["wording"]


def matches(entry: dict[str, Any], pattern: LinearPattern, line: str) -> bool:
    if "literals" in entry:
        return pattern.fullmatch(line) is not None
    found = pattern.match(line) if entry.get("at_start") else pattern.search(line)
    return found is not None


@pytest.mark.parametrize(("name", "entry", "pattern"), ENTRIES, ids=[each[0] for each in ENTRIES])
def test_a_pattern_matches_its_lines_and_no_near_miss(
    name: str, entry: dict[str, Any], pattern: LinearPattern
) -> None:
    assert entry["matches"] and entry["near_misses"]
    assert [line for line in entry["matches"] if not matches(entry, pattern, line)] == []
    assert [line for line in entry["near_misses"] if matches(entry, pattern, line)] == []


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.stem)
def test_every_alternative_has_a_line_of_its_own(path: Path) -> None:
    table = source_table(path)
    parts = parts_of(table)
    lacking = []
    for entry, (_, _, whole) in zip(table["wording"], of_file(path.stem), strict=True):
        for alternative in entry.get("any", []) or map(re.escape, entry.get("literals", [])):
            text = entry.get("pattern", "{any}").replace("{any}", alternative)
            alone = linear(wordings.with_parts(text, parts), whole.flags)
            if not any(matches(entry, alone, line) for line in entry["matches"]):
                lacking.append(f"{entry['name']}: {alternative}")
    assert lacking == []


def of_file(name: str) -> list[Entry]:
    return [each for each in ENTRIES if each[0].startswith(f"{name}: ")]


def test_each_pattern_is_linear() -> None:
    pytest.importorskip("re2")
    assert not [name for name, _, p in ENTRIES if isinstance(p.compile(), re.Pattern)]


# That a pattern matches is not enough: another one may stand before it, or its reader may look only
# at lines with certain words. The readers themselves have to come to it.
def test_no_ending_is_read_by_the_form_of_another() -> None:
    read = {
        (entry["name"], line): form and form[0].name
        for entry in of("exits")
        if not entry.get("group")
        for line in entry["matches"]
        for form in [exits.read_form(line)]
        if form is None or exits.find_exits([Line(1, line)]) == [] or form[0].name != entry["name"]
    }
    assert read == {}


def test_each_statement_of_a_rank_is_read() -> None:
    for entry in of("rank_words"):
        for line in entry["matches"] if entry["group"] == "statement" else ():
            shape = rank_words.Shapes().of(line.encode())
            said = [name for name, _ in rank_words.statements_of(shape, line)]
            assert entry["says"] in said, line


def test_each_fatal_line_is_read() -> None:
    [entry] = [each for each in of("fatal_lines") if each["name"] == "fatal"]
    assert [line for line in entry["matches"] if not fatal_lines.fatal_message(line)] == []


def test_each_end_of_a_training_is_read() -> None:
    lines = [line for e in of("progress") if "finished" in e["says"] or e.get("group") == "finished"
             for line in e["matches"]]  # fmt: skip
    assert lines
    assert [line for line in lines if not progress.find_finish([Line(1, line)])] == []


def test_each_phase_is_read() -> None:
    wrong = []
    for entry in of("phases"):
        for line in entry["matches"]:
            if entry["group"] == "line":
                phase = phases.phase_of_line([Line(1, line)], 0)
            elif entry["group"] == "code":
                phase = phases.phase_of_traceback(traceback(), [line])
            elif entry["group"] == "apart":
                continue
            else:
                file, _, function = line.rpartition(":")
                phase = phases.phase_of_traceback(traceback((file, 1, function)))
            if phase != entry["says"]:
                wrong.append((entry["name"], line, phase))
    assert wrong == []


def traceback(*frames: tuple[str, int, str]) -> TracebackText:
    return TracebackText(1, 2, "ValueError", frames=list(frames))


def test_the_compiled_ones_are_those_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "compiled.json"
    path.write_text(wordings.compile_wordings(source_files()), encoding="utf-8")
    wanted = digest(source_files(), wordings.MADE_BY)
    assert read_compiled(path, wanted) == [compiled_table(each) for each in source_files()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, which a test may edit."""
    for path in source_files():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(wordings, "FOLDER", tmp_path)
    monkeypatch.setattr(wordings, "COMPILED", tmp_path / "compiled.json")
    return tmp_path


def test_an_edit_counts_at_once(folder: Path) -> None:
    before = wordings._tables.__wrapped__()
    assert json.loads((folder / "compiled.json").read_text(encoding="utf-8"))["tables"]
    lines = folder / "lines.toml"
    text = lines.read_text(encoding="utf-8").replace('name = "guesses"', 'name = "supposes"')
    lines.write_text(text, encoding="utf-8")
    after = wordings._tables.__wrapped__()
    assert after["lines"]["wording"][0]["name"] == "supposes"
    assert after["exits"] == before["exits"]


def test_a_built_package_needs_the_compiled_ones_alone(folder: Path) -> None:
    (folder / "compiled.json").write_text(wordings.compile_wordings(), encoding="utf-8")
    before = wordings._tables.__wrapped__()
    for path in source_files():
        path.unlink()
    (folder / "compiled.json").unlink()
    with pytest.raises(FaultyCause, match="is damaged or missing"):
        wordings._tables.__wrapped__()
    document = {"digest": digest([], wordings.MADE_BY), "tables": list(before.values())}
    (folder / "compiled.json").write_text(json.dumps(document), encoding="utf-8")
    assert wordings._tables.__wrapped__() == before


def test_the_example_in_contributing_takes_one_entry(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```toml\n(\[\[wording\]\].*?)```", page, re.DOTALL)
    file = folder / "rank_words.toml"
    file.write_text(f"{file.read_text(encoding='utf-8')}\n{example}", encoding="utf-8")
    added = compiled_table(file)["wording"][-1]
    written = source_table(file)["wording"][-1]
    pattern = linear(added["pattern"])
    assert written["says"] in {entry["says"] for entry in of("rank_words")}
    assert all(pattern.search(line) for line in written["matches"])
    assert not any(pattern.search(line) for line in written["near_misses"])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"near_misses": []}, "a: near_misses missing"),
        ({"matches": None}, "a: matches missing"),
        ({"patern": "x"}, "a: unknown key patern"),
        ({"pattern": None}, "a: pattern or any missing"),
        ({"pattern": "x", "any": ["y"]}, "a: the pattern has to say once where"),
    ],
)
def test_a_faulty_entry_is_told_what_is_wrong(
    folder: Path, entry: dict[str, Any], said: str
) -> None:
    whole = {"name": "a", "says": "b", "pattern": "x", "matches": ["x"], "near_misses": ["y"]}
    table = {key: value for key, value in {**whole, **entry}.items() if value is not None}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
    (folder / "lines.toml").write_text(f"[[wording]]\n{text}\n", encoding="utf-8")
    with pytest.raises(FaultyCause, match=said):
        compiled_table(folder / "lines.toml")
