"""Which versions of the program an investigation runs: what was asked for comes in, places go out.

`--edits`, `--bisect` and changes of kind git end here. A session asks for the place of each trial
and gives it back; without any of them, every trial runs in the user's folder as it is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rerail.changes import Changed, parse_changes
from rerail.errors import UsageError
from rerail.experiments.edits.groups import changed_lines, group_hunks, name_of
from rerail.experiments.edits.hunks import EditedFile, edited_file
from rerail.experiments.edits.repository import Commit, Repository
from rerail.experiments.edits.trees import TreePlace, Trees, Version
from rerail.experiments.planner.commits import CommitSearch


class Asked(Protocol):
    """What of the options is about the program."""

    @property
    def edits(self) -> str | None: ...

    @property
    def bisect(self) -> str | None: ...

    @property
    def scheduler(self) -> str: ...

    @property
    def reproducer(self) -> Path | None: ...


@dataclass
class ProgramVersions:
    cwd: str
    trees: Trees | None = None
    changes: list[str] = field(default_factory=list)  # to try, besides those that were named
    marks: list[str] = field(default_factory=list)  # what they mean now, for the journal's key
    edits: dict[str, list[str]] = field(default_factory=dict)  # by change, its first lines
    commits: list[Commit] = field(default_factory=list)  # the good one first, the bad one last
    is_as_recorded: bool = True  # without a change it is what earlier runs in this folder ran

    @classmethod
    def asked_for(
        cls,
        tries: Sequence[str],
        asked: Asked | None,
        cwd: Path,
        home: Path,
        say: Callable[[str], None],
    ) -> ProgramVersions:
        edits, bisect = (asked.edits, asked.bisect) if asked else (None, None)
        revisions = [change.value for change in parse_changes(tries) if change.kind == "git"]
        if edits is None and bisect is None and not revisions:
            return cls(str(cwd))
        _refuse_what_does_not_fit(tries, edits, bisect, asked)
        repository = Repository.around(cwd)
        if bisect is not None:
            return _commits(repository, bisect, cwd, home, say)
        if edits is not None:
            return _edits(repository, edits, cwd, home, say)
        marks = [f"{each}={repository.commit(each).sha}" for each in revisions]
        return cls(str(cwd), Trees(repository, cwd, home, say), marks=marks)

    def place(self, changed: Changed, environ: Mapping[str, str]) -> TreePlace:
        if self.trees is None:
            return TreePlace(changed.command, self.cwd)
        return self.trees.place(changed.tree, changed.command, environ)

    def done_with(self, cwd: str) -> None:
        if self.trees is not None:
            self.trees.done_with(cwd)

    def close(self) -> None:
        if self.trees is not None:
            self.trees.close()

    def about_the_answer(self, document: Mapping[str, Any], planner: object) -> dict[str, Any]:
        """What the document says besides: the edits with their lines, or the commit."""
        if self.edits:
            return {"edits": self.edits}
        if not self.commits:
            return {}
        found = planner.first_bad() if isinstance(planner, CommitSearch) else []
        first_bad = [self.commits[-1 - back] for back in reversed(found)]
        return {
            "bisect": {
                "commits": len(self.commits) - 1,
                "good": self.commits[0].sha,
                "bad": self.commits[-1].sha,
                "first_bad": [{"commit": c.sha, "subject": c.subject} for c in first_bad],
            }
        }


def _refuse_what_does_not_fit(
    tries: Sequence[str], edits: str | None, bisect: str | None, asked: Asked | None
) -> None:
    if edits is not None and bisect is not None:
        raise UsageError("--edits and --bisect are two questions", "Ask one at a time.")
    if bisect is not None and tries:
        raise UsageError(
            "--bisect tries commits and nothing else", "Leave --try away, or leave --bisect away."
        )
    if asked is None:
        return
    if asked.scheduler != "local":
        raise UsageError(
            "other versions of the program are run on this machine alone",
            "Leave --scheduler away.",
        )
    if asked.reproducer is not None and (edits is not None or bisect is not None):
        raise UsageError(
            "--reproducer writes a script for the program as it is now",
            "Ask for it without --edits and --bisect.",
        )


def _edits(
    repository: Repository, asked: str, cwd: Path, home: Path, say: Callable[[str], None]
) -> ProgramVersions:
    first, dots, last = asked.partition("..")
    if last.startswith("."):
        raise UsageError(f"--edits {asked}: a range has two dots", "Write it as REV..REV.")
    base = repository.commit(first or "HEAD")
    tip = repository.commit(last or "HEAD") if dots else None
    tip_sha = tip.sha if tip else None
    files = [
        edited_file(file, repository.ranges(base.sha, tip_sha, file.path))
        for file in repository.changed_files(base.sha, tip_sha)
    ]
    groups, idle = group_hunks(files)
    if not groups:
        only = " but comments and layout" if idle else ""
        raise UsageError(
            f"nothing differs from {base.short} {base.subject!r}{only}: no edit to take back",
            "Name the commits whose edits you doubt: --edits HEAD~3..HEAD",
        )
    by_path = {file.path: file for file in files}
    named, lines = {}, {}
    for group in groups:
        text = name_of(group)
        while text in named:
            text += "'"
        named[text] = group
        lines[text] = [line for hunk in group for line in changed_lines(by_path[hunk.path], hunk)]
    hunks = sum(len(group) for group in groups)
    count = len(groups)
    left_out = f"; {len(idle)} of comments or layout left out" if idle else ""
    say(
        f"{count} edit{'s' * (count != 1)} to take back, of {hunks} place{'s' * (hunks != 1)} that"
        f" differ from {base.short}{left_out}"
    )
    version = Version(base.sha, tuple(files), named)
    return ProgramVersions(
        str(cwd),
        Trees(repository, cwd, home, say, version),
        changes=list(named),
        marks=[_mark(base.sha, files)],
        edits=lines,
        is_as_recorded=False,
    )


def _mark(base: str, files: Sequence[EditedFile]) -> str:
    digest = hashlib.sha256(base.encode())
    for file in files:
        digest.update(repr((file.path, file.file.old, file.file.new)).encode())
    return digest.hexdigest()[:16]


def _commits(
    repository: Repository, asked: str, cwd: Path, home: Path, say: Callable[[str], None]
) -> ProgramVersions:
    first, dots, last = asked.partition("..")
    if not (first and dots) or last.startswith("."):
        raise UsageError(
            f"--bisect {asked}: a range is a good revision, two dots and a bad one",
            "Write it as: --bisect v1.2..HEAD",
        )
    good, bad = repository.commit(first), repository.commit(last or "HEAD")
    between = repository.commits(good, bad)
    if not between:
        raise UsageError(f"there is no commit between {good.short} and {bad.short}")
    if os.fsencode("") != repository.git("status", "--porcelain", "--untracked-files=no"):
        say("your uncommitted edits are not part of this; --edits asks about them")
    commits = [good, *between]
    say(f"{len(between)} commits, from {good.short} {good.subject!r}")
    texts = [f"git:{commit.sha}" for commit in commits[:-1]]
    return ProgramVersions(
        str(cwd),
        Trees(repository, cwd, home, say, Version(bad.sha)),
        changes=texts,
        marks=[f"bisect {good.sha}..{bad.sha}"],
        commits=commits,
        is_as_recorded=False,
    )
