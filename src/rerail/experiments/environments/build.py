"""Environments that are the user's own but for the changes of a trial.

In: changes of which some are versions. Out: the command and the variables of a trial that runs with
them. Promises: an environment is built below the store, never in the user's own; its size is said
before and refused where the disk has no room; at most a few are there at a time, and none is
after the end unless they are to be kept.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.changes import Change, Changed, Profile, apply_changes
from rerail.experiments.environments.activation import enter, forget_use, was_used, watch_use
from rerail.experiments.environments.copies import (
    Size,
    copy_package,
    copy_packages,
    copy_scripts,
    size_of_copy,
)
from rerail.experiments.environments.own import OwnEnvironment, find_own
from rerail.experiments.environments.resolution import (
    Resolution,
    Resolver,
    refusal_of_sets,
    site_packages_of,
)
from rerail.experiments.environments.uv import HOW_TO_GET_UV, EnvironmentNotBuilt, Uv, find_uv
from rerail.store import layout
from rerail.wording import bytes_in_words, counted, listed, seconds_in_words

FOLDER = "environments"
_COMPLETE = "rerail-complete.json"  # written last: what has none was left half-built
_MOST_KEPT = 4
_SPARE_BYTES = 256 << 20


@dataclass
class Environment:
    """One that is built; `users` counts the trials under way in it."""

    folder: Path
    changes: tuple[str, ...]
    resolution: Resolution
    seconds: float
    users: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "changes": list(self.changes),
            "besides": self.resolution.besides,
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True)
class Prepared:
    """What a trial runs, and the environment that it runs in, if that is not the user's own."""

    changed: Changed
    environment: Environment | None = None
    is_by_path: bool = False

    def without_effect(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Versions that the trial did not run with, since its Python was found otherwise."""
        if self.environment is None or not self.is_by_path or was_used(self.environment.folder):
            return ()
        return tuple(change.text for change in changes if change.needs_environment)


class Environments:
    """`name` tells the folders of two investigations apart; `seconds_left` bounds each build."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: str,
        environ: Mapping[str, str],
        home: Path,
        name: str,
        say: Callable[[str], None],
        seconds_left: Callable[[], float],
        *,
        keeps: bool = False,
        most: int = _MOST_KEPT,
    ) -> None:
        self._command = tuple(command)
        self._cwd = Path(cwd)
        self._environ = environ
        self._folder = home.absolute() / FOLDER / name
        self._say = say
        self._seconds_left = seconds_left
        self._keeps = keeps
        self._most = most
        self._built: dict[str, Environment] = {}  # the one used last is the last
        self._resolved: dict[tuple[str, ...], Resolution] = {}
        self._tools: tuple[OwnEnvironment, Uv, Resolver] | None = None
        self._size: Size | None = None
        self._has_said_path = False
        self.peers: dict[str, str] = {}  # by package, what the changes to be tried ask for
        self.told: dict[str, dict[str, Any]] = {}  # of every one that was built

    def why_not(self, change: Change) -> str | None:
        """The sentence on why a version cannot be tried, or None."""
        try:
            resolution = self._resolve([change])
        except EnvironmentNotBuilt as error:
            return str(error)
        if resolution.besides:
            self._say(f"{change.text} also changes {listed(resolution.besides)}")
        return None

    def prepare(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        changes: Sequence[Change],
        profile: Profile,
    ) -> Prepared:
        """The user's command, as one trial begins it, with these changes.

        Raises EnvironmentNotBuilt; what else does not apply raises DoesNotApply.
        """
        versions = [change for change in changes if change.needs_environment]
        others = [change for change in changes if not change.needs_environment]
        changed = apply_changes(command, environ, others, profile, has_trees=True)
        if not versions:
            return Prepared(changed)
        environment = self._environment_with(versions)
        environment.users += 1
        entered = enter(changed.command, {**environ, **changed.variables}, environment.folder)
        if entered.is_by_path:
            if environment.users == 1:
                forget_use(environment.folder)
            if not self._has_said_path:
                self._has_said_path = True
                self._say(
                    f"no word of the command names its Python ({self._command[0]}):"
                    " the environment is put first on PATH"
                )
        variables = {**changed.variables, **entered.variables}
        found = Changed(entered.command, variables, changed.tree)
        return Prepared(found, environment, entered.is_by_path)

    def leave(self, prepared: Prepared | None) -> None:
        """A trial is over."""
        if prepared is not None and prepared.environment is not None:
            prepared.environment.users -= 1

    def close(self) -> None:
        if self._keeps:
            if self._built:
                self._say(f"kept: {listed([str(each.folder) for each in self._built.values()])}")
            shutil.rmtree(self._folder / "resolver", ignore_errors=True)
            return
        if self._built:
            self._say(f"removes {counted(len(self._built), 'environment')}")
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._folder.parent.is_dir() and not any(self._folder.parent.iterdir()):
            self._folder.parent.rmdir()

    def _open(self) -> tuple[OwnEnvironment, Uv, Resolver]:
        if self._tools is None:
            path = find_uv()
            if path is None:
                raise EnvironmentNotBuilt(HOW_TO_GET_UV)
            own = find_own(self._command, self._cwd, self._environ)
            uv = Uv(path, self._environ, own.prefix)
            layout.make_folder(self._folder)
            self._tools = own, uv, Resolver(own, uv, self._folder / "resolver")
        return self._tools

    def _resolve(self, changes: Sequence[Change]) -> Resolution:
        key = tuple(sorted(change.text for change in changes))
        if key not in self._resolved:
            _, _, resolver = self._open()
            found = resolver.resolve(changes, self.peers, self._seconds_left())
            self._resolved[key] = found
        return self._resolved[key]

    def _environment_with(self, changes: Sequence[Change]) -> Environment:
        own, uv, _ = self._open()
        try:
            resolution = self._resolve(changes)
            key = _key(own, resolution)
            found = self._built.pop(key, None)
            if found is None:
                self._make_room()
                texts = tuple(change.text for change in changes)
                found = self._build(self._folder / key, texts, resolution, own, uv)
        except EnvironmentNotBuilt as error:
            raise EnvironmentNotBuilt(refusal_of_sets(changes, str(error))) from None
        except OSError as error:
            raise EnvironmentNotBuilt(refusal_of_sets(changes, str(error))) from error
        self._built[key] = found
        return found

    def _make_room(self) -> None:
        """Remove what was used longest ago."""
        idle = [key for key, each in self._built.items() if not each.users]
        for key in idle[: max(0, len(self._built) - self._most + 1)]:
            shutil.rmtree(self._built.pop(key).folder, ignore_errors=True)

    def _build(
        self,
        folder: Path,
        texts: tuple[str, ...],
        resolution: Resolution,
        own: OwnEnvironment,
        uv: Uv,
    ) -> Environment:
        started = time.monotonic()
        if not (folder / _COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            self._refuse_without_disk(own, resolution)
            try:
                self._fill(folder, resolution, own, uv)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        seconds = time.monotonic() - started
        environment = Environment(folder, texts, resolution, seconds)
        document = environment.to_json()
        (folder / _COMPLETE).write_text(json.dumps(document, indent=1))
        self.told[" and ".join(texts)] = document
        self._say(f"built the environment with {listed(texts)} in {seconds_in_words(seconds)}")
        return environment

    def _fill(self, folder: Path, resolution: Resolution, own: OwnEnvironment, uv: Uv) -> None:
        python = resolution.python or own.interpreter.real_path
        uv.make_environment(folder, python, self._seconds_left())
        target = site_packages_of(folder)
        is_other_python = resolution.python is not None
        wanted = resolution.requirements if is_other_python else resolution.exact
        whole = is_other_python and resolution.with_dependencies
        if wanted:
            uv.install(folder, wanted, self._seconds_left(), with_dependencies=whole)
        # From here on files are links to the user's own, and uv is not let near them.
        if is_other_python:
            for name in own.editable:
                copy_package(own, name, target)
        else:
            copy_packages(own, target, resolution.versions)
            copy_scripts(own, folder, resolution.versions)
        watch_use(folder, target)

    def _refuse_without_disk(self, own: OwnEnvironment, resolution: Resolution) -> None:
        """The new versions are taken to be as large as the old ones, in uv's cache and here."""
        if self._size is None:
            self._size = size_of_copy(own, self._folder)
            self._say(
                f"an environment takes {bytes_in_words(self._size.copied_bytes)} and the changed"
                f" packages, in {self._folder}; {bytes_in_words(self._size.shared_bytes)} are"
                " shared with the original"
            )
        size = self._size
        if resolution.python is None:
            needed = size.copied_bytes + 2 * sum(
                sum(own.files_of(name).values()) for name in resolution.versions
            )
        else:
            needed = 2 * (size.shared_bytes + size.copied_bytes)
        free = shutil.disk_usage(self._folder).free
        if free < needed + _SPARE_BYTES:
            raise EnvironmentNotBuilt(
                f"it takes about {bytes_in_words(needed)}, and {self._folder} has"
                f" {bytes_in_words(free)} free"
            )


def _key(own: OwnEnvironment, resolution: Resolution) -> str:
    told = [sorted(resolution.requirements), sorted(resolution.without), resolution.python]
    text = json.dumps([own.identity, *told, sorted(resolution.versions.items())])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
