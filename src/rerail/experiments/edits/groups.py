"""Which edits can only be taken back together? Edited files come in; groups of hunks go out.

Two hunks go together if one brings a name (a variable, an argument, a function, an import) that the
other uses, or if a file cannot be read any more with one of them taken back and the other not.
Hunks of comments and layout alone are left out: nothing can depend on them.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rerail.experiments.edits.hunks import (
    EditedFile,
    Hunk,
    can_be_read,
    lines_of,
    means_the_same,
)

Group = tuple[Hunk, ...]
MOST_GROUPS = 16  # beyond it, those nearest to each other are taken together
_MOST_VERSIONS = 64  # of one file, that are looked at


@dataclass
class _Names:
    """What the lines of a hunk bind and use, on one side."""

    bound: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)


def group_hunks(files: Sequence[EditedFile]) -> tuple[list[Group], list[Hunk]]:
    """Groups in the order of the files, and hunks that change nothing."""
    idle = [
        hunk
        for file in files
        for hunk in file.hunks
        if means_the_same(file.path, file.file.new, file.without([hunk]))
    ]
    hunks = [hunk for file in files for hunk in file.hunks if hunk not in idle]
    groups: list[Group] = [(hunk,) for hunk in hunks]
    for one, other in _dependent(files, hunks):
        groups = _joined(groups, one, other)
    for file in files:
        groups = _until_readable(file, groups)
    while len(groups) > MOST_GROUPS:
        groups = _joined(groups, *_nearest(groups))
    return groups, idle


def _joined(groups: list[Group], one: Hunk, other: Hunk) -> list[Group]:
    first = next(group for group in groups if one in group)
    second = next(group for group in groups if other in group)
    if first is second:
        return groups
    order = [hunk for group in groups for hunk in group]
    both = tuple(sorted((*first, *second), key=order.index))
    return [both if group is first else group for group in groups if group is not second]


def _dependent(files: Sequence[EditedFile], hunks: Sequence[Hunk]) -> Iterator[tuple[Hunk, Hunk]]:
    """Pairs of which one brings, or takes away, a name that the other uses."""
    for is_new in (False, True):
        trees = {file.path: _tree(file, is_new) for file in files}
        names = {hunk: _names_of(trees[hunk.path], hunk, is_new) for hunk in hunks}
        other_side = {
            hunk: _names_of(_tree_of(files, hunk.path, not is_new), hunk, not is_new)
            for hunk in hunks
        }
        bound_elsewhere = _bound_outside(trees, hunks, is_new)
        for hunk in hunks:
            brings = names[hunk].bound - other_side[hunk].bound - bound_elsewhere[hunk.path]
            brings |= _changed_signatures(files, hunk, is_new)
            if not brings:
                continue
            for user in hunks:
                if user != hunk and brings & names[user].used:
                    yield hunk, user


def _tree_of(files: Sequence[EditedFile], path: str, is_new: bool) -> ast.Module | None:
    return _tree(next(file for file in files if file.path == path), is_new)


def _tree(file: EditedFile, is_new: bool) -> ast.Module | None:
    content = file.file.new if is_new else file.file.old
    if content is None or not file.path.endswith(".py"):
        return None
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _span(hunk: Hunk, is_new: bool) -> tuple[float, float]:
    if hunk.is_whole_file:
        return 0, float("inf")
    return (hunk.new_start, hunk.new_end) if is_new else (hunk.old_start, hunk.old_end)


def _names_of(tree: ast.Module | None, hunk: Hunk, is_new: bool) -> _Names:
    found = _Names()
    if tree is None:
        return found
    start, end = _span(hunk, is_new)
    for node in ast.walk(tree):
        if start <= getattr(node, "lineno", 0) - 1 < end:
            bound, used = _names_in(node)
            found.bound |= bound
            found.used |= used
    return found


def _names_in(node: ast.AST) -> tuple[set[str], set[str]]:
    """What this node by itself binds and uses."""
    if isinstance(node, ast.Name):
        is_bound = isinstance(node.ctx, ast.Store)
        return ({node.id}, set()) if is_bound else (set(), {node.id})
    if isinstance(node, ast.Attribute):
        is_bound = isinstance(node.ctx, ast.Store)
        return ({node.attr}, set()) if is_bound else (set(), {node.attr})
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}, set()
    if isinstance(node, ast.arg):
        return {node.arg}, set()
    if isinstance(node, ast.keyword) and node.arg:
        return set(), {node.arg}
    if isinstance(node, ast.alias):
        name = node.name.split(".")[0]
        return {node.asname or name}, {node.name.rpartition(".")[2]}
    return set(), set()


def _bound_outside(
    trees: dict[str, ast.Module | None], hunks: Sequence[Hunk], is_new: bool
) -> dict[str, set[str]]:
    """By file, what lines bind that no hunk touches: taking a hunk back leaves it."""
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        spans = [_span(hunk, is_new) for hunk in hunks if hunk.path == path]
        found[path] = set()
        for node in ast.walk(tree) if tree else ():
            at = getattr(node, "lineno", 0) - 1
            if not any(start <= at < end for start, end in spans):
                found[path] |= _names_in(node)[0]
    return found


def _changed_signatures(files: Sequence[EditedFile], hunk: Hunk, is_new: bool) -> set[str]:
    """Functions whose arguments this hunk changes: their callers go with it."""
    old = _signatures(_tree_of(files, hunk.path, False))
    new = _signatures(_tree_of(files, hunk.path, True))
    start, end = _span(hunk, is_new)
    return {
        name
        for name, (arguments, first, last) in (new if is_new else old).items()
        if name in old and name in new and old[name][0] != new[name][0]
        if arguments and first < end and start < last
    }


def _signatures(tree: ast.Module | None) -> dict[str, tuple[str, int, int]]:
    """Arguments, and the lines of the head, of every function."""
    return {
        node.name: (ast.dump(node.args), node.lineno - 1, node.body[0].lineno - 1)
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _until_readable(file: EditedFile, groups: list[Group]) -> list[Group]:
    """Join groups of this file until it can be read with any of them taken back."""
    if not can_be_read(file.path, file.file.new) or not can_be_read(file.path, file.file.old):
        own = [hunk for hunk in file.hunks if any(hunk in group for group in groups)]
        for hunk in own[1:]:  # which of them broke it cannot be told
            groups = _joined(groups, own[0], hunk)
        return groups
    while True:
        own_groups = [group for group in groups if any(hunk in file.hunks for hunk in group)]
        broken = next(
            (
                taken
                for taken in _versions(len(own_groups))
                if not can_be_read(file.path, file.without(_hunks_of(own_groups, taken)))
            ),
            None,
        )
        if broken is None:
            return groups
        groups = _joined(groups, *_boundary(file, own_groups, broken))


def _hunks_of(groups: Sequence[Group], taken: int) -> set[Hunk]:
    return {hunk for i, group in enumerate(groups) if taken >> i & 1 for hunk in group}


def _versions(count: int) -> Iterator[int]:
    """Sets to look at: all, or each alone, all but each, and some drawn ones."""
    if 1 << count <= _MOST_VERSIONS:
        yield from range(1 << count)
        return
    everything = (1 << count) - 1
    for i in range(count):
        yield 1 << i
        yield everything ^ 1 << i
    draw = random.Random(count)
    for _ in range(_MOST_VERSIONS):
        yield draw.randrange(1 << count)


def _boundary(file: EditedFile, groups: Sequence[Group], taken: int) -> tuple[Hunk, Hunk]:
    """The nearest two hunks of which one is taken back and the other is not."""
    gone = _hunks_of(groups, taken)
    kept = _hunks_of(groups, ~taken)
    pairs = [(a, b) for a in file.hunks if a in gone for b in file.hunks if b in kept]
    return min(pairs, key=lambda pair: abs(pair[0].new_start - pair[1].new_start))


def _nearest(groups: Sequence[Group]) -> tuple[Hunk, Hunk]:
    """Hunks of two groups that lie closest; in one file if there are such."""
    pairs = [(a[-1], b[0]) for a, b in itertools.pairwise(groups)]
    return min(
        pairs,
        key=lambda pair: (pair[0].path != pair[1].path, abs(pair[1].new_start - pair[0].new_end)),
    )


def name_of(group: Group) -> str:
    """As a change is written: edit:train.py:12-15."""
    places: dict[str, list[str]] = {}
    for hunk in group:
        places.setdefault(hunk.path, []).append(hunk.place)
    parts = []
    for path, lines in places.items():
        more = f"+{len(lines) - 3}" if len(lines) > 3 else ""
        where = ",".join(line for line in lines[:3] if line)
        parts.append(f"{path}:{where}{more}" if where else path)
    more = f" and {len(parts) - 2} more files" if len(parts) > 2 else ""
    return " ".join(f"edit:{' & '.join(parts[:2])}{more}".split())


def changed_lines(file: EditedFile, hunk: Hunk, most: int = 3) -> list[str]:
    """The first lines of a hunk as `git diff` shows them, for people."""
    if hunk.is_whole_file:
        if file.file.old is None:
            return [f"the new file {file.path}"]
        return [f"the whole file {file.path}"]
    old = lines_of(file.file.old or b"")[hunk.old_start : hunk.old_end]
    new = lines_of(file.file.new or b"")[hunk.new_start : hunk.new_end]
    both = [b"-" + line for line in old] + [b"+" + line for line in new]
    shown = [line.decode(errors="replace").rstrip()[:100] for line in both[:most]]
    return shown + ([f"… {len(both) - most} more lines"] if len(both) > most else [])
