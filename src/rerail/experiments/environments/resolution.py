"""What has to be installed for a set of version changes, and what changes besides.

In: the user's own environment and the changes. Out: a `Resolution`: requirements for uv, packages
to take away, and every package that gets another version. Promises: nothing is installed: the
resolver sees a folder with the metadata of the user's packages and is asked what it would do.

uv, like pip, changes a package and what that package needs, and leaves packages alone that needed
the old version. Those are given to it as well, until nothing that fitted before is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from rerail.changes import Change
from rerail.experiments.environments.copies import copy_metadata
from rerail.experiments.environments.own import OwnEnvironment
from rerail.experiments.environments.uv import EnvironmentNotBuilt, Moves, Uv
from rerail.platform.distributions import normalised, split_requirement
from rerail.wording import listed

_MOST_ROUNDS = 8


@dataclass(frozen=True)
class Resolution:
    requirements: tuple[str, ...]
    without: tuple[str, ...]  # names of packages that are taken away
    python: str | None = None  # another interpreter than the user's own
    with_dependencies: bool = True
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> before, after
    asked: tuple[str, ...] = ()  # names that the changes themselves are about

    @property
    def exact(self) -> list[str]:
        """Requirements for the packages that get another version, and no others."""
        sources = {
            normalised(each.partition(" @ ")[0].partition("[")[0]): each
            for each in self.requirements
            if " @ " in each
        }
        return [
            sources.get(name) or f"{name}=={after}"
            for name, (_, after) in self.versions.items()
            if after
        ]

    @property
    def besides(self) -> list[str]:
        """What gets another version without being named by a change."""
        return [
            f"{name} {before or '(none)'} -> {after or '(none)'}"
            for name, (before, after) in sorted(self.versions.items())
            if name not in self.asked
        ]


class Resolver:
    """Asks uv what it would do; `folder` gets environments with metadata alone."""

    def __init__(self, own: OwnEnvironment, uv: Uv, folder: Path) -> None:
        self._own = own
        self._uv = uv
        self._folder = folder
        self._is_made = False

    def resolve(
        self, changes: Sequence[Change], peers: Mapping[str, str], seconds: float
    ) -> Resolution:
        """`peers`: by name, what other changes of the same investigation ask for. Where a package
        has to move with another, it moves to that."""
        wanted = {c.package: c.value for c in changes if c.kind == "package" and c.value}
        without = tuple(self._present(c) for c in changes if c.kind == "package" and not c.value)
        python = next((change.value for change in changes if change.kind == "python"), None)
        if python is not None:
            return self._for_python(python, wanted, without, seconds)
        return self._for_packages(wanted, without, peers, seconds)

    def _present(self, change: Change) -> str:
        found = self._own.package_for(change.package)
        if found is None:
            raise EnvironmentNotBuilt(f"{change.package} is not installed in {self._own.prefix}")
        return found.key

    def _for_packages(
        self,
        wanted: dict[str, str],
        without: tuple[str, ...],
        peers: Mapping[str, str],
        seconds: float,
    ) -> Resolution:
        if not self._is_made:
            self._uv.make_environment(self._folder, self._own.interpreter.real_path, seconds)
            copy_metadata(self._own.folders, site_packages_of(self._folder))
            self._is_made = True
        asked, requirements = (*wanted, *without), dict(wanted)
        moves = Moves({}, {})
        for _ in range(_MOST_ROUNDS if wanted else 0):
            moves = self._uv.install(
                self._folder, list(requirements.values()), seconds, is_dry=True
            )
            more = self._needed_too(moves, requirements, peers)
            if not more:
                break
            requirements.update(more)
        versions = self._compare(moves, without)
        self._refuse_no_difference(wanted, versions)
        return Resolution(tuple(requirements.values()), without, versions=versions, asked=asked)

    def _needed_too(
        self, moves: Moves, requirements: Mapping[str, str], peers: Mapping[str, str]
    ) -> dict[str, str]:
        """Packages that do not fit the new versions, and those that another change is about."""
        more: dict[str, str] = {}
        after = {normalised(name): version for name, version in moves.added.items()}
        for name, version in after.items():
            if name in peers and name not in requirements and not _fits(peers[name], version):
                more[name] = peers[name]
        for name, package in self._own.packages.items():
            if name in after or name in requirements:
                continue
            for needed, specifier in _needs(package.requires):
                was = self._own.packages.get(needed)
                if needed not in after or was is None:
                    continue
                fitted = _fits(f"x{specifier}", was.version)
                if fitted and not _fits(f"x{specifier}", after[needed]):
                    more[name] = peers.get(name) or package.name
        return more

    def _for_python(
        self, version: str, wanted: dict[str, str], without: tuple[str, ...], seconds: float
    ) -> Resolution:
        own = self._own.interpreter.version or ""
        if own == version or own.startswith(f"{version}."):
            raise EnvironmentNotBuilt(f"it runs under Python {own} already")
        python = self._uv.find_python(version)
        if python is None:
            raise EnvironmentNotBuilt(
                f"Python {version} is not installed here; `uv python install {version}` gets it"
            )
        folder = self._folder.with_name(f"{self._folder.name}-{version}")
        self._uv.make_environment(folder, python, seconds)
        frozen = {n: line for n, line in self._own.frozen().items() if n not in without}
        exact = tuple({**frozen, **wanted}.values())
        asked = (*wanted, *without)
        is_whole = bool(wanted)  # a changed package brings what it needs
        try:
            moves = self._uv.install(
                folder, exact, seconds, is_dry=True, with_dependencies=is_whole
            )
        except EnvironmentNotBuilt as error:
            # Not every version was built for every Python: then a later one.
            later = {name: line.replace("==", ">=", 1) for name, line in frozen.items()}
            exact, is_whole = tuple({**later, **wanted}.values()), True
            try:
                moves = self._uv.install(folder, exact, seconds, is_dry=True)
            except EnvironmentNotBuilt:
                raise error from None
        versions = self._compare(moves, without)
        return Resolution(exact, without, python, is_whole, versions, asked)

    def _compare(self, moves: Moves, without: tuple[str, ...]) -> dict[str, tuple[str, str]]:
        before = {name: package.version for name, package in self._own.packages.items()}
        moved = {name: (before[name], "") for name in without}
        for name, version in moves.added.items():
            key = normalised(name)
            if not _is_same(before.get(key, ""), version):
                moved[key] = (before.get(key, ""), version)
        return moved

    def _refuse_no_difference(
        self, wanted: Mapping[str, str], versions: Mapping[str, tuple[str, str]]
    ) -> None:
        for name in wanted:
            package = self._own.packages.get(name)
            if name not in versions and package is not None:
                raise EnvironmentNotBuilt(f"{package.name} {package.version} is installed already")


def site_packages_of(folder: Path) -> Path:
    return next(iter(folder.glob("lib/python3*/site-packages")))


def _needs(requires: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and versions that a package demands here, without its extras."""
    for text in requires:
        name, specifier, marker = split_requirement(text)
        if name and specifier and "extra" not in marker:
            yield normalised(name), specifier


def _fits(requirement: str, version: str) -> bool:
    """What cannot be read is held to fit: the resolver has the last word."""
    try:
        return Requirement(requirement).specifier.contains(version, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return True


def _is_same(before: str, after: str) -> bool:
    try:
        return Version(before) == Version(after)
    except InvalidVersion:
        return before == after


def refusal_of_sets(changes: Sequence[Change], reason: str) -> str:
    if len(changes) == 1:
        return f"no environment with it can be built: {reason}"
    names = listed([change.text for change in changes])
    return f"no environment with {names} together can be built: {reason}"
