"""Keeps what trials write away from the user's folders.

In: the command, its working folder, the pattern of checkpoints, and what earlier runs of it wrote.
Out: which folders get an overlay, and a folder for what each trial writes to them. Promises: where
no overlay is possible, it is said before the first trial, and asked. What trials wrote is bounded,
and removed when each is over, or kept where that was asked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.errors import UsageError
from rerail.experiments.trials.covered import (
    changed_in,
    folders_linked,
    folders_named,
    folders_of,
    own_places,
    periods_of,
    shared_folders_changed,
)
from rerail.experiments.trials.outputs import Period
from rerail.platform import layers, overlay
from rerail.platform.own_folder import OwnFolder
from rerail.store import Store
from rerail.wording import bytes_in_words, counted, listed

PREFIX = "rerail-trials-"
KEPT = "outputs"  # in the store
_SHARE_OF_ROOM = 0.5
_LOOK_SECONDS = 0.5
_LOOK_SHARE = 0.02  # of the time is spent on measuring, at most
_MOST_NAMED = 6


@dataclass(frozen=True)
class Asking:
    """Who is told and asked where no overlay is possible."""

    say: Callable[[str], None]
    may_write: bool = False  # answered beforehand
    ask: Callable[[str], bool] = lambda question: False


class Shield:
    """The folders of one experiment that its trials cannot write to.

    Nothing is tried or asked before the first `layers`.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: str,
        pattern: str | None,
        asking: Asking,
        *,
        store: Store | None = None,
        through: Path | None = None,
        is_local: bool = True,
        jobs: int = 1,
        keeps: bool = False,
    ) -> None:
        self.folders: tuple[str, ...] = ()
        self.most_bytes = 0
        self.kept: Path | None = None  # the folder that has what trials wrote
        self._command, self._cwd, self._pattern = tuple(command), Path(cwd), pattern
        self._asking, self._store = asking, store
        self._through = (through or (store.home if store else self._cwd / ".rerail")).absolute()
        self._is_local, self._jobs, self._keeps = is_local, jobs, keeps
        self._top: OwnFolder | None = None
        self._is_ready = self._has_learnt = False
        self._next_look: dict[str, float] = {}

    def layers(self, elsewhere: Sequence[Path] = ()) -> str:
        """Make the folder of the next trial; an empty answer: there is no overlay.

        `elsewhere`: outputs that the trial has elsewhere, because its arguments were changed.
        Raises UsageError if there is none and trials may not write where the command writes.
        """
        if not self._is_ready:
            self._prepare(elsewhere)
            self._is_ready = True
        return tempfile.mkdtemp(dir=self._top.path) if self._top is not None else ""

    def overfull(self, where: str, *, now: bool = False) -> str:
        """Say what a trial wrote if it is more than it may; an empty answer otherwise.

        It is measured from time to time, or `now`.
        """
        began = time.monotonic()
        if not where or (began < self._next_look.get(where, 0.0) and not now):
            return ""
        size = layers.size_of_layers(Path(where))
        spent = time.monotonic() - began
        self._next_look[where] = began + max(_LOOK_SECONDS, spent / _LOOK_SHARE)
        if size <= self.most_bytes:
            return ""
        place = Path(where).parents[1]
        return (
            f"it wrote {bytes_in_words(size)} to {place}, and may write"
            f" {bytes_in_words(self.most_bytes)}: half of the room there. Name a folder with more"
            " room in TMPDIR"
        )

    def over(self, where: str, run: str, begun_unix: float, outputs: Sequence[Path] = ()) -> None:
        """A trial has ended: keep or remove what it wrote, and learn where else it wrote.

        `run` names what is kept; `outputs` were written because its arguments were changed.
        """
        if self._keeps and self._store is not None and run:
            self._keep(where, outputs, self._store.home / KEPT / run)
        if not where:
            return
        layers.remove_layers(Path(where))
        if not self._has_learnt:
            self._has_learnt = True
            self._learn([Period(begun_unix, time.time())])

    def close(self) -> None:
        if self._top is not None:
            self._top.close()
            self._top = None

    def _prepare(self, elsewhere: Sequence[Path]) -> None:
        if not self._is_local:
            self._ask_to_write("folders are kept on this machine only", elsewhere)
            return
        needed = layers.outermost(
            [*folders_of(self._cwd, self._pattern), *folders_named(self._command, self._cwd)]
        )
        periods, why = self._periods(), ""
        for where in _places_for_layers(needed):
            try:
                top = OwnFolder(PREFIX, where)
            except OSError as error:
                why = why or str(error)
                continue
            others = [
                *own_places(top.path),
                *folders_linked(self._cwd, self._through, top.path),
                *self._shared(periods, top.path),
            ]
            refused = self._try(needed, others, top.path)
            missing = [each for each in needed if each in refused]
            if not missing:
                self._take(top, [each for each in [*needed, *others] if each not in refused])
                for place, reason in refused.items():
                    self._asking.say(f"what trials write to {place} arrives there: {reason}")
                return
            top.close()
            why = why or f"{missing[0]}: {refused[missing[0]]}"
        self._ask_to_write(why, elsewhere)

    def _try(self, needed: Sequence[Path], others: Sequence[Path], top: Path) -> dict[Path, str]:
        """Which of these folders cannot be covered, and why; tried together, as trials do it."""
        refused: dict[Path, str] = {}
        while True:
            wanted = [*needed, *(each for each in others if each not in refused)]
            try:
                found = overlay.refused(wanted, top, [self._through])
            except OSError as error:
                return dict.fromkeys(needed, str(error))
            refused |= found
            # Without one that is refused, a folder in it is tried by itself.
            if not found or any(each in found for each in needed):
                return refused

    def _take(self, top: OwnFolder, folders: list[Path]) -> None:
        self._top = top
        self.folders = tuple(map(str, layers.outermost(folders)))
        self.most_bytes = int(_SHARE_OF_ROOM * shutil.disk_usage(top.path).free / self._jobs)

    def _periods(self) -> list[Period]:
        if self._store is None:
            return []
        return periods_of(self._store, self._command, str(self._cwd))

    def _shared(self, periods: Sequence[Period], top: Path) -> list[Path]:
        return shared_folders_changed(periods, self._cwd, self._through, top)

    def _learn(self, periods: Sequence[Period]) -> None:
        """Cover also what was written where programs meet others, from the next trial on."""
        if self._top is None:
            return
        known = [Path(each) for each in self.folders]
        found = self._shared(periods, self._top.path)
        new = [each for each in found if not any(each.is_relative_to(one) for one in known)]
        refused = self._try(known, new, self._top.path) if new else {}
        if not any(each in refused for each in known):
            covered = [each for each in [*known, *new] if each not in refused]
            self.folders = tuple(map(str, layers.outermost(covered)))

    def _keep(self, where: str, outputs: Sequence[Path], target: Path) -> None:
        try:
            is_any = bool(where) and layers.keep_layers(Path(where), target)
            for folder in outputs:
                if any(folder.iterdir()):
                    target.mkdir(parents=True, exist_ok=True)
                    shutil.move(folder, target / folder.name)
                    is_any = True
            if is_any:
                self.kept = target.parent
        except OSError as error:
            self._asking.say(f"what a trial wrote could not be kept in {target}: {error}")

    def _ask_to_write(self, why: str, elsewhere: Sequence[Path]) -> None:
        """Say it; raise UsageError unless it may go on."""
        told = f"trials write where the command writes, into {self._cwd} too: {why}"
        self._asking.say(told)
        periods = self._periods()
        written = self._written_in(periods)
        left = [p for p in written if not any(p.is_relative_to(each) for each in elsewhere)]
        if written and not left:
            return  # all that earlier runs wrote, trials write elsewhere
        known = _in_words([_name(each, self._cwd) for each in left], is_recorded=bool(periods))
        self._asking.say(known)
        if self._asking.may_write or self._asking.ask("Let trials write there?"):
            return
        raise UsageError(
            f"nothing was run: {told}",
            f"{known[:1].upper()}{known[1:]}.\nIf trials may write there, add --yes before the --.",
        )

    def _written_in(self, periods: Sequence[Period]) -> list[Path]:
        folders = [*folders_of(self._cwd, self._pattern), *folders_named(self._command, self._cwd)]
        changes = changed_in(layers.outermost(folders), periods, self._through) if periods else []
        return [each.path for each in changes if not each.is_folder]


def _in_words(names: Sequence[str], *, is_recorded: bool) -> str:
    if not is_recorded:
        return "no run of this command is on record that would show what it writes"
    if not names:
        return "no file there changed while earlier runs of the command went on"
    more = len(names) - _MOST_NAMED
    shown = [*names[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    changed = f"{counted(len(names), 'file')} changed while earlier runs of the command went on"
    return f"{changed}: {listed(shown)}"


def _places_for_layers(covered: Sequence[Path]) -> list[Path]:
    """Temporary folders, first those that are in no covered folder."""
    found = list(dict.fromkeys([Path(tempfile.gettempdir()).resolve(), Path("/var/tmp")]))
    found = [each for each in found if os.access(each, os.W_OK)]
    return sorted(found, key=lambda each: any(each.is_relative_to(c) for c in covered))


def _name(path: Path, cwd: Path) -> str:
    top = cwd.resolve()
    return str(path.relative_to(top) if path.is_relative_to(top) else path)
