"""A new cause begins as a template, which is refused until the last line of it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rerail.catalogue import loader
from rerail.catalogue.loader import read_table, write_new_cause
from rerail.catalogue.template import new_cause, unfilled_lines
from rerail.cli.causes import command
from rerail.errors import FaultyCause, UsageError

FILLED = {
    "retry": '"with-remedy"',
    "pattern": "'''the graph of \\w+ got other shapes'''",
}


@pytest.fixture
def causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gpu").mkdir()
    monkeypatch.setattr(loader, "CAUSES", tmp_path)
    return tmp_path


def fill(line: str) -> str:
    key = line.partition(" = ")[0]
    if key in FILLED:
        return f"{key} = {FILLED[key]}"
    return re.sub(r"FILL IN [^\"]*", "something", line)


def test_it_is_refused_until_every_line_is_filled_in(causes: Path) -> None:
    path = write_new_cause("graph-broken", "gpu", 'A "CUDA" graph \\ got other shapes')
    lines = path.read_text(encoding="utf-8").split("\n")
    marked = [at for at, line in enumerate(lines) if "FILL IN" in line]
    assert len(marked) > 8
    for at in marked:
        with pytest.raises(FaultyCause) as refused:
            read_table(path)
        assert refused.value.help_text.startswith(f"line {at + 1}: "), "the first that is left"
        lines[at] = fill(lines[at])
        path.write_text("\n".join(lines), encoding="utf-8")
    assert read_table(path)["title"] == 'A "CUDA" graph \\ got other shapes'


def test_the_key_of_a_line_is_named() -> None:
    found = "\n".join(unfilled_lines(new_cause("graph-broken", "gpu", "Broken")))
    for key in (
        "what_happened",
        "mechanism",
        "matches",
        "near_misses",
        "retry",
        "pattern",
        "title",
    ):
        assert f": {key}: " in found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Graph", "gpu", "Broken"), "no id of a cause"),
        (("graph", "gpu", "Broken"), "two or more words"),
        (("../graph-broken", "gpu", "Broken"), "no id of a cause"),
        (("graph-broken", "weather", "Broken"), "memory, native, gpu"),
        (("graph-broken", "gpu", "Two\nlines"), "one line"),
        (("graph-broken", "gpu", " "), "one line"),
    ],
)
def test_what_cannot_be_a_cause_is_refused(
    causes: Path, arguments: tuple[str, str, str], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        write_new_cause(*arguments)
    assert said in f"{refused.value.message} {refused.value.help_text}"
    assert list(causes.rglob("*.toml")) == []


def test_an_id_is_never_used_twice(causes: Path) -> None:
    write_new_cause("graph-broken", "gpu", "Broken")
    with pytest.raises(UsageError, match="never used twice"):
        write_new_cause("graph-broken", "gpu", "Broken")


def test_the_command_starts_one_and_says_what_is_next(causes: Path) -> None:
    done = CliRunner().invoke(command, ["--new", "graph-broken", "gpu", "Broken"])
    assert done.exit_code == 0
    assert f"Fill in {causes / 'gpu' / 'graph-broken.toml'}" in done.output
    both = CliRunner().invoke(command, ["gpu-oom", "--new", "graph-worn", "gpu", "Broken"])
    assert isinstance(both.exception, UsageError)


def test_what_is_not_toml_is_said_with_its_line(causes: Path) -> None:
    path = causes / "gpu" / "bad.toml"
    path.write_text('id = "bad\n')
    with pytest.raises(FaultyCause, match=r"gpu/bad\.toml is not TOML: .*line 1"):
        read_table(path)
