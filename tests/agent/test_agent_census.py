"""A census names what the program keeps, by the program's own name, and nobody notices it."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_runs import PROGRAMS, Runner

from rerail.records import Census
from rerail.store.censuses import read_censuses

UNTOUCHED = PROGRAMS / "census_untouched.py"


def last_census(folder: Path) -> Census:
    (path,) = folder.glob("*.census")
    return read_censuses(path, 0)[-1]


@pytest.mark.parametrize(
    ("which", "of", "name", "kind", "function"),
    [
        ("local", "local", "local", "set", "main"),
        ("nested", "local", "nested[...]", "list", "main"),
        ("attribute", "attribute", "self.history", "list", None),
        ("class", "attribute", "Holder.shared", "list", None),
        ("slot", "attribute", "self.kept", "list", None),
        ("subclass", "local", "named", "deque", "main"),
        ("global", "global", "module_list", "list", "main"),
        ("default", "closure", "kept", "list", "with_default"),
        ("closure", "closure", "inside", "dict", "add"),
        ("lru_cache", "lru_cache", "cached", "dict", "cached"),
        ("buffer", "local", "buffer", "buffer", "main"),
    ],
)
def test_what_grows_is_named_and_nobody_notices(
    run: Runner, which: str, of: str, name: str, kind: str, function: str | None
) -> None:
    ended = run([str(UNTOUCHED), which])
    assert ended.stderr == ""
    assert ended.stdout.split("\n") == [
        "locals as they were",
        "local went",
        "the exception came through",
        "done",
        "",
    ]
    assert ended.status == 0
    assert ended.box.notes == []
    census = last_census(ended.folder)
    assert census.walk_is_complete
    top = census.grown[0]
    assert (top.of, top.name, top.kind, top.function) == (of, name, kind, function)
    assert top.file == str(UNTOUCHED)


def test_a_census_that_fails_is_noted_once_and_left_off(run: Runner, tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text(
        "import sys\n"
        "census = sys.modules['rerail_imports'].hook_module('rerail_census')\n"
        "census.Watch = None\n"
        "print(census.look(5) == census.NEVER)\n"
    )
    ended = run([str(program)])
    assert (ended.stdout, ended.stderr) == ("True\n", "")
    (note,) = ended.box.notes
    assert note.startswith("census is off: TypeError")
