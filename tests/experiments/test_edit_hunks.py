"""Edits as changes: taken back exactly, and together where one depends on the other."""

from __future__ import annotations

import ast
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from rerail.errors import UsageError
from rerail.experiments.edits.groups import MOST_GROUPS, group_hunks, name_of
from rerail.experiments.edits.hunks import EditedFile, can_be_read, edited_file
from rerail.experiments.edits.repository import ChangedFile, Repository, parse_ranges

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def files_of(folder: Path, before: dict[str, str], after: dict[str, str]) -> list[EditedFile]:
    """Both versions in a repository of git's own, the second not committed."""
    folder.mkdir()
    repository = Repository(folder)
    repository.git("init", "--quiet")
    for name, text in before.items():
        (folder / name).write_bytes(text.encode())
    repository.git("add", ".")
    identity = ("user.name=A", "user.email=a@example.org")
    words = [word for each in identity for word in ("-c", each)]
    subprocess.run(
        ["git", *words, "-C", str(folder), "commit", "--quiet", "--allow-empty", "-m", "Before"],
        check=True,
        capture_output=True,
    )
    for name, text in after.items():
        (folder / name).write_bytes(text.encode())
    found = Repository.around(folder).changed_files("HEAD", None)
    return [edited_file(file, repository.ranges("HEAD", None, file.path)) for file in found]


@needs_git
@pytest.mark.parametrize("seed", range(12))
def test_taking_back_all_hunks_gives_the_file_as_it_was(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = ["one", "two", "", "@@ -1 +1 @@", "-- x", "++ y", "\\ no newline"]
    ends = ["", "\n", "\r\n"]
    before = "\n".join(draw.choice(words) for _ in range(draw.randrange(30))) + draw.choice(ends)
    lines = before.split("\n")
    for _ in range(draw.randrange(1, 8)):
        at = draw.randrange(len(lines) + 1)
        lines[at : at + draw.randrange(3)] = [draw.choice(words)] * draw.randrange(3)
    after = "\n".join(lines) + draw.choice(ends)
    files = files_of(tmp_path / "r", {"a.txt": before}, {"a.txt": after})
    if before == after:
        assert files == []
        return
    (file,) = files
    assert file.without([]) == after.encode()
    assert file.without(file.hunks) == before.encode()


def test_lines_that_look_like_headers_are_not_headers() -> None:
    diff = "--- a\n+++ b\n@@ -3 +3,2 @@ def f\n-@@ -9 +9 @@\n+@@ -8 +8 @@\n+x\n@@ -7,0 +9 @@\n+y\n"
    assert parse_ranges(diff) == [(3, 1, 3, 2), (7, 0, 9, 1)]


BEFORE = """\
import os


def f(a):
    x = a
    y = 2
    # why
    z = 3
    print(x, z)
    return y


print(f(1))
"""


def names(files: list[EditedFile]) -> list[str]:
    return [name_of(group) for group in group_hunks(files)[0]]


@needs_git
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # Two that have nothing to do with each other; a comment is none.
        (
            BEFORE.replace("x = a", "x = -a").replace("why", "how").replace("n y", "n -y"),
            ["edit:a.py:5", "edit:a.py:10"],
        ),
        # One brings a name that the other uses.
        (
            BEFORE.replace("x = a", "k = a").replace("print(x, z)", "print(k, z)"),
            ["edit:a.py:5,9"],
        ),
        (
            BEFORE.replace("import os", "import os, sys").replace("y = 2", "y = sys.maxsize"),
            ["edit:a.py:1,6"],
        ),
        # A function and who calls it.
        (
            BEFORE.replace("def f(a)", "def f(a, b)").replace("print(f(1))", "print(f(1, 2))"),
            ["edit:a.py:4,13"],
        ),
        # A file that could not be read with one and without the other.
        (
            BEFORE.replace("x = a", "x = [a,").replace("y = 2", "2,").replace("z = 3", "3]"),
            ["edit:a.py:5-6,8"],
        ),
    ],
)
def test_what_depends_on_each_other_goes_together(
    tmp_path: Path, after: str, expected: list[str]
) -> None:
    files = files_of(tmp_path / "r", {"a.py": BEFORE}, {"a.py": after})
    assert names(files) == expected
    groups, _ = group_hunks(files)
    for taken in range(1 << len(groups)):
        hunks = {h for i, group in enumerate(groups) if taken >> i & 1 for h in group}
        content = files[0].without(hunks)
        assert content is not None and can_be_read("a.py", content)


@needs_git
def test_a_function_of_another_file_goes_with_its_caller(tmp_path: Path) -> None:
    before = {"a.py": "x = 1\n", "b.py": "def old():\n    return 1\n"}
    after = {
        "a.py": "from b import fresh\n\nx = fresh()\n",
        "b.py": before["b.py"] + "\n\ndef fresh():\n    return 2\n",
    }
    assert len(names(files_of(tmp_path / "r", before, after))) == 1


@pytest.mark.parametrize("seed", range(30))
def test_any_set_of_groups_leaves_a_program_that_can_be_read(seed: int) -> None:
    """3 to 12 hunks of generated programs."""
    draw = random.Random(seed)
    count = draw.randrange(3, 13)
    old, new, ranges = [], [], []
    for i in range(count):
        for lines in (old, new):
            lines += [f"def f{i}():", "    a = 1"]
        at_old, at_new = len(old), len(new)
        body = [f"    b = {i}"]
        changed = draw.choice(
            [[f"    b = -{i + 1}"], [f"    b = f{(i + 1) % count}"], ["    b = (", "    1)"]]
        )
        old += body
        new += changed
        ranges.append((at_old + 1, 1, at_new + 1, len(changed)))
        for lines in (old, new):
            lines += ["    return b", ""]
    texts = ["\n".join(lines).encode() + b"\n" for lines in (old, new)]
    file = edited_file(ChangedFile("a.py", *texts), ranges)
    groups, idle = group_hunks([file])
    assert sum(map(len, groups)) + len(idle) == count
    for _ in range(40):
        taken = {h for group in groups if draw.random() < 0.5 for h in group}
        content = file.without(taken)
        assert content is not None
        ast.parse(content)


def test_many_edits_are_taken_together_by_nearness() -> None:
    old = "".join(f"a{i} = 1\n# {i}\n" for i in range(50)).encode()
    new = old.replace(b"= 1", b"= 2")
    ranges = [(2 * i + 1, 1, 2 * i + 1, 1) for i in range(50)]
    groups, _ = group_hunks([edited_file(ChangedFile("a.py", old, new), ranges)])
    assert len(groups) == MOST_GROUPS
    assert len({name_of(group) for group in groups}) == MOST_GROUPS


@needs_git
def test_no_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in the working tree"):
        Repository.around(tmp_path)
