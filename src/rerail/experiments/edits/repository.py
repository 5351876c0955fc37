"""What git says about the user's repository: revisions, differences, files that it does not track.

In: the folder that the command runs in. Out: answers of git, or one line on what to type. Promises:
nothing here writes to the user's index, working tree, HEAD or stash, and no program that the
repository's own configuration names (hooks, monitors, external diffs) is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rerail.errors import UsageError
from rerail.platform.patterns import linear

_OF_THE_CALLER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE")
_SUBMODULE = "160000"
_REGULAR = ("100644", "100755")
_RANGE = linear(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*")


@dataclass(frozen=True)
class Commit:
    sha: str
    subject: str

    @property
    def short(self) -> str:
        return self.sha[:10]


@dataclass(frozen=True)
class ChangedFile:
    """One file that differs; a side is None where the file is not there."""

    path: str
    old: bytes | None
    new: bytes | None
    is_executable: bool = False
    was_executable: bool = False


class Repository:
    def __init__(self, top: Path) -> None:
        self.top = top

    @classmethod
    def around(cls, cwd: Path) -> Repository:
        if shutil.which("git") is None:
            raise UsageError(
                "git is not installed, or not on PATH", "Install git, or try other changes."
            )
        found = _git(cwd, "rev-parse", "--show-toplevel")
        top = os.fsdecode(found.stdout.removesuffix(b"\n"))
        if found.returncode or not top:
            said = found.stderr.decode(errors="replace").strip()
            if "dubious ownership" in said:
                raise UsageError(
                    f"git does not trust the repository of {cwd}: it belongs to somebody else",
                    f"Type: git config --global --add safe.directory {cwd}",
                )
            raise UsageError(
                f"{cwd} is not in the working tree of a git repository",
                "Go to the folder of your program, or try other changes.",
            )
        repository = cls(Path(top))
        if _git(cwd, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
            raise UsageError(
                "the repository has no commit yet: there is nothing to go back to",
                "Commit a version that worked: git add . && git commit",
            )
        return repository

    def git(self, *arguments: str) -> bytes:
        """What git answers; raises UsageError with git's own last line."""
        done = _git(self.top, *arguments)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise UsageError(f"git {arguments[0]} failed: {said[-1]}")
        return done.stdout

    def commit(self, revision: str) -> Commit:
        found = _git(
            self.top,
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            f"{revision}^{{commit}}",
        )
        # Old versions of git echo --end-of-options.
        sha = (found.stdout.decode().split() or [""])[-1]
        if found.returncode or not sha:
            raise UsageError(
                f"there is no revision {revision!r} in {self.top}",
                "`git log --oneline` shows those that there are.",
            )
        subject = self.git("show", "--no-patch", "--format=%s", sha).decode(errors="replace")
        return Commit(sha, subject.strip())

    def commits(self, good: Commit, bad: Commit) -> list[Commit]:
        """After `good` up to `bad`, in order; of a merge, the merge itself."""
        if _git(self.top, "merge-base", "--is-ancestor", good.sha, bad.sha).returncode:
            raise UsageError(
                f"{good.short} is not an ancestor of {bad.short}",
                "Give the older commit first: --bisect GOOD..BAD. `git merge-base GOOD BAD` names"
                " the newest commit that both have.",
            )
        lines = self.git(
            "log", "--first-parent", "--reverse", "--format=%H %s", f"{good.sha}..{bad.sha}"
        )
        pairs = [line.partition(" ") for line in lines.decode(errors="replace").splitlines()]
        return [Commit(sha, subject) for sha, _, subject in pairs]

    def submodules(self, revision: str) -> dict[str, str]:
        """Path to commit."""
        entries = self.git("ls-tree", "-r", "-z", "--full-tree", revision).split(b"\0")
        found = {}
        for entry in entries:
            if entry.startswith(_SUBMODULE.encode()):
                what, _, path = entry.partition(b"\t")
                found[os.fsdecode(path)] = what.split()[2].decode()
        return found

    def untracked(self) -> list[str]:
        """Also what is ignored; folders that hold nothing else as one, with a slash at the end."""
        found: set[str] = set()
        for more in ((), ("--ignored",)):
            arguments = ("--others", *more, "--exclude-standard", "--directory", "-z")
            found |= {os.fsdecode(e) for e in self.git("ls-files", *arguments).split(b"\0") if e}
        return sorted(found)

    def changed_files(self, base: str, tip: str | None) -> list[ChangedFile]:
        """From `base` to `tip`, or to the files as they are now."""
        revisions = [base] if tip is None else [base, tip]
        flags = ("--raw", "--no-renames", "--abbrev=40", "-z", "--ignore-submodules=dirty")
        parts = iter(self.git("diff", *flags, *revisions, "--").split(b"\0"))
        found = []
        for what in parts:
            if not what:
                continue
            path = os.fsdecode(next(parts))
            old_mode, new_mode, _, _, letter = what.decode().lstrip(":").split()
            if letter == "U":
                raise UsageError(
                    f"{path} has a merge conflict",
                    "Resolve it first: `git status` names the files, `git merge --abort` gives up.",
                )
            if _SUBMODULE in (old_mode, new_mode):
                raise UsageError(
                    f"the submodule {path} is at another commit: that cannot be taken back here",
                    f"Go into it and ask there, or: git submodule update {path}",
                )
            if not {old_mode, new_mode} <= {*_REGULAR, "000000"}:
                continue  # a link: nothing that a program computes with
            old = self._content(base, path) if old_mode in _REGULAR else None
            new = None
            if new_mode in _REGULAR:
                new = self._content(tip, path) if tip else (self.top / path).read_bytes()
            found.append(ChangedFile(path, old, new, new_mode == "100755", old_mode == "100755"))
        return found

    def ranges(self, base: str, tip: str | None, path: str) -> list[tuple[int, int, int, int]]:
        """Of each hunk: first line and number of lines, before and after. Empty: binary."""
        revisions = [base] if tip is None else [base, tip]
        flags = ("--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
        text = self.git("diff", *flags, *revisions, "--", path).decode(errors="replace")
        return parse_ranges(text)

    def _content(self, revision: str | None, path: str) -> bytes:
        # With the filters of a checkout (line endings): lines are those of the user's files.
        return self.git("cat-file", "--filters", f"{revision}:{path}")


def parse_ranges(diff: str) -> list[tuple[int, int, int, int]]:
    """The hunk headers of `git diff --unified=0` of one file."""
    found = []
    left = 0  # lines of a hunk's own, which may look like headers
    for line in diff.split("\n"):
        if left:
            left -= not line.startswith("\\")
            continue
        if header := _RANGE.fullmatch(line):
            old, old_count, new, new_count = (
                int(header[1]),
                int(header[2] or 1) if header[2] != "0" else 0,
                int(header[3]),
                int(header[4] or 1) if header[4] != "0" else 0,
            )
            left = old_count + new_count
            found.append((old, old_count, new, new_count))
    return found


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environ = {name: v for name, v in os.environ.items() if name not in _OF_THE_CALLER}
    environ.update(GIT_TERMINAL_PROMPT="0", GIT_PAGER="", LC_ALL="C", GIT_OPTIONAL_LOCKS="0")
    words = ["git", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false"]
    words += ["-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false"]
    words += ["-c", "core.quotePath=false", "-C", str(folder), *arguments]
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environ
    )
