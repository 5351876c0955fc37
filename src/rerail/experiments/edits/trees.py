"""Folders that hold the program as it was, or without some edits: git worktrees below the store.

In: a repository, and which revision or edits a trial asks for. Out: a folder, and the command's
words with paths into the repository turned to it. Promises: the user's own working tree, index,
HEAD and stash are never written; every folder is made for one version and never rewritten, so that
no compiled file of another version can be taken for it; `close` removes all of them, and the next
start those that a killed rerail has left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rerail.changes import Change
from rerail.errors import RerailError, UsageError
from rerail.experiments.edits.groups import Group
from rerail.experiments.edits.hunks import EditedFile
from rerail.experiments.edits.repository import Repository
from rerail.platform.interpreter import editable_folders, find_interpreter
from rerail.store import layout, liveness

FOLDER = "worktrees"
_MOST_KEPT = 6  # worktrees at once; the one that was used longest ago goes first
_MOST_LINKS = 2000
_NEVER_LINKED = ("__pycache__", ".git", ".rerail")


@dataclass
class Version:
    """What a trial without any change of the tree runs: a commit, and files on top of it."""

    commit: str
    files: tuple[EditedFile, ...] = ()  # that differ from `commit` in it
    edits: dict[str, Group] = field(default_factory=dict)  # that can be taken back, by change


@dataclass(frozen=True)
class TreePlace:
    """Where a trial runs, and with what."""

    command: tuple[str, ...]
    cwd: str
    variables: dict[str, str] = field(default_factory=dict)


class Trees:
    def __init__(
        self,
        repository: Repository,
        cwd: Path,
        home: Path,
        say: Callable[[str], None],
        unchanged: Version | None = None,
    ) -> None:
        """`unchanged`: what a trial without changes of the tree runs; None: the user's folder."""
        self.repository = repository
        self.unchanged = unchanged
        self._inside = Path(os.path.relpath(cwd.resolve(), repository.top.resolve()))
        self._cwd = cwd
        self._home = home.absolute()
        self._say = say
        self._made: dict[tuple[str, ...], Path] = {}
        self._in_use: dict[Path, int] = {}
        self._scratch: Path | None = None
        self._lock: int | None = None
        self._has_told = False

    def place(
        self, tree: Sequence[Change], command: Sequence[str], environ: Mapping[str, str]
    ) -> TreePlace:
        """For a trial with these changes; `done_with` gives the folder back."""
        if not tree and self.unchanged is None:
            return TreePlace(tuple(command), str(self._cwd))
        key = tuple(sorted(change.text for change in tree))
        folder = self._made.pop(key, None) or self._make(tree)
        self._made[key] = folder  # last: used most recently
        self._in_use[folder] = self._in_use.get(folder, 0) + 1
        inside = folder / self._inside
        inside.mkdir(parents=True, exist_ok=True)
        words = tuple(self._turned(word, folder) for word in command)
        return TreePlace(words, str(inside), self._module_path(command, environ, folder))

    def _module_path(
        self, command: Sequence[str], environ: Mapping[str, str], folder: Path
    ) -> dict[str, str]:
        """Modules come from the worktree, also those of a package installed for development."""
        given = [part for part in environ.get("PYTHONPATH", "").split(":") if part]
        parts = [self._turned(part, folder) for part in given]
        interpreter = find_interpreter(list(command), self._cwd, environ)
        for path in editable_folders(interpreter.site_packages if interpreter else ()):
            turned = self._turned(str(path), folder)
            if turned != str(path) and turned not in parts:
                parts.append(turned)
        return {"PYTHONPATH": ":".join(parts)} if parts else {}

    def done_with(self, cwd: str) -> None:
        for folder in self._in_use:
            if Path(cwd) == folder / self._inside and self._in_use[folder]:
                self._in_use[folder] -= 1

    def close(self) -> None:
        self._made.clear()
        if self._scratch is not None:
            # All that is there: one may have been half made when Ctrl-C came.
            for folder in self._scratch.iterdir():
                self._remove(folder)
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _turned(self, word: str, folder: Path) -> str:
        """A path to a file of the repository as the same path in the worktree.

        What the worktree only links to, or lacks, stays the user's own.
        """
        before, equals, path = word.partition("=") if not word.startswith("/") else ("", "", word)
        for top in {str(self.repository.top), str(self.repository.top.resolve())}:
            if path == top or path.startswith(f"{top}/"):
                inside = os.path.relpath(path, top)
                if (folder / inside).exists() and not self._is_linked(folder, inside):
                    return f"{before}{equals}{folder / inside}"
        return word

    def _is_linked(self, folder: Path, inside: str) -> bool:
        parts = Path(inside).parts
        return any((folder / Path(*parts[:n])).is_symlink() for n in range(1, len(parts) + 1))

    def _make(self, tree: Sequence[Change]) -> Path:
        revisions = [change.value for change in tree if change.kind == "git"]
        version = self.unchanged
        if revisions:
            version = Version(self.repository.commit(revisions[0]).sha)
        if version is None:
            raise UsageError(
                f"{tree[0].text!r} is an edit that only `isolate --edits` can take back"
            )
        folder = self._check_out(version.commit)
        edits = [] if revisions else [change.text for change in tree]
        taken_back = {hunk for text in edits for hunk in version.edits[text]}
        for file in version.files:
            path = folder / file.path
            content = file.without(taken_back)
            path.unlink(missing_ok=True)
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o755 if file.is_executable(taken_back) else 0o644)
        self._bring_untracked(folder, version)
        return folder

    def _check_out(self, commit: str) -> Path:
        while len(self._made) >= _MOST_KEPT:
            key = next((k for k, f in self._made.items() if not self._in_use.get(f)), None)
            if key is None:
                break
            self._remove(self._made.pop(key))
        if self._scratch is None:
            self._scratch = self._open_scratch()
        folder = self._scratch / os.urandom(4).hex()
        self.repository.git("worktree", "add", "--quiet", "--detach", str(folder), commit)
        return folder

    def _open_scratch(self) -> Path:
        below = self._home / FOLDER
        layout.make_folder(below)
        for left in below.iterdir():  # of a rerail that was killed
            if left.is_dir() and liveness.is_held(left) is False:
                for folder in left.iterdir():
                    self._remove(folder)
                shutil.rmtree(left, ignore_errors=True)
        scratch = below / f"{os.getpid()}-{os.urandom(3).hex()}"
        layout.make_folder(scratch)
        self._lock = liveness.hold(scratch)
        return scratch

    def _remove(self, folder: Path) -> None:
        try:
            self.repository.git("worktree", "remove", "--force", "--force", str(folder))
        except RerailError:
            shutil.rmtree(folder, ignore_errors=True)

    def _bring_untracked(self, folder: Path, version: Version) -> None:
        """Data and environments that git does not hold: by links where the name is free."""
        linked = []
        submodules = self.repository.submodules(version.commit)
        for path in submodules:
            target = folder / path
            if target.is_dir() and not any(target.iterdir()):
                target.rmdir()
        names = [*self.repository.untracked(), *submodules]
        for name in names[:_MOST_LINKS]:
            source, target = self.repository.top / name, folder / name.rstrip("/")
            if set(Path(name).parts) & set(_NEVER_LINKED) or name.endswith(".pyc"):
                continue  # compiled files would be those of the user's version
            if source == self._home or self._home in source.parents:
                continue
            if target.exists() or target.is_symlink() or not target.parent.is_dir():
                continue
            if source.suffix == ".py" and source.is_file():
                # Python looks for modules beside the file that a link leads to.
                shutil.copyfile(source, target)
            else:
                target.symlink_to(source)
            linked.append(name)
        if linked and not self._has_told:
            self._has_told = True
            more = f" and {len(linked) - 4} more" if len(linked) > 4 else ""
            self._say(
                f"trials run in git worktrees; what git does not track is linked into them:"
                f" {', '.join(linked[:4])}{more}"
            )
        if len(names) > _MOST_LINKS:
            self._say(f"only {_MOST_LINKS} of {len(names)} untracked entries are linked")
