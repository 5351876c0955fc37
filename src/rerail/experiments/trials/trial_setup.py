"""What a trial runs: changes come in, a command that a scheduler can start goes out.

A trial runs the user's own command: begun at a checkpoint, if trials begin there, with the changes
applied to it, in the environment that versions among them ask for, and in the worktree that
revisions and edits ask for. Promises: what was made for one trial goes when it is left, and
everything when the setup is closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.changes import Change, Profile, why_not
from rerail.errors import UsageError
from rerail.experiments.edits.versions import ProgramVersions
from rerail.experiments.environments.build import Environments, Prepared
from rerail.experiments.trials.from_checkpoint import (
    CheckpointStart,
    Place,
    resuming_of,
    scratch_of,
)
from rerail.experiments.trials.shield import Asking, Shield
from rerail.recorder import CommandNotStarted, find_program
from rerail.scheduling import Task
from rerail.store import Store


@dataclass(frozen=True)
class TrialOptions:
    """What every experiment is asked for."""

    stall_seconds: float | None = None
    is_fresh: bool = False  # what was learnt before does not count
    checkpoint: str | None = None  # a pattern; None: as the recorded run was given it
    resume_args: str | None = None
    keeps_environments: bool = False  # those that were built for versions
    keeps_outputs: bool = False  # what trials wrote
    may_write: bool = False  # where the command writes, if no overlay is possible


@dataclass(frozen=True)
class ReadyTrial:
    """A trial that can be started, and what is given back when it is over."""

    command: tuple[str, ...]
    cwd: str
    home: Path
    environ: dict[str, str]
    changes: tuple[Change, ...]
    place: Place
    prepared: Prepared
    setup: TrialSetup
    layers: str = ""  # gets what it writes to the user's folders
    made_unix: float = field(default_factory=time.time)

    @property
    def variables(self) -> dict[str, str]:
        """Those that the changes set."""
        return self.prepared.changed.variables

    @property
    def checkpoint(self) -> str:
        """Where it begins; empty: at the very beginning."""
        return str(self.place.settings.get("resumed_from", ""))

    def task(self, label: str, stall_seconds: float | None, settings: Mapping[str, Any]) -> Task:
        return Task(
            command=self.command,
            cwd=self.cwd,
            home=str(self.home),
            environ=self.environ,
            label=label,
            stall_seconds=stall_seconds,
            shielded=self.setup.shield.folders,
            layers=self.layers,
            settings={
                **self.place.settings,
                **settings,
                "changes": [change.text for change in self.changes],
                "changed_environment": self.variables,
            },
        )

    def without_effect(self) -> tuple[str, ...]:
        """Versions that it did not run with, once it is over."""
        return self.prepared.without_effect(self.changes)

    def overfull(self, *, now: bool = False) -> str:
        """Say what it wrote if that is more than it may; from time to time, or `now`."""
        return self.setup.shield.overfull(self.layers, now=now)

    def leave(self, run: str = "") -> None:
        """It is over: `run` names what is kept of it, if that was asked for."""
        self.setup.environments.leave(self.prepared)
        self.setup.program.done_with(self.cwd)
        self.setup.shield.over(self.layers, run, self.made_unix, self.place.outputs())
        self.place.remove()


class TrialSetup:
    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        home: Path,
        environments: Environments,
        program: ProgramVersions,
        checkpoints: CheckpointStart | None = None,
        *,
        shield: Shield,
    ) -> None:
        self.environments = environments
        self.program = program
        self.checkpoints = checkpoints  # None: trials begin and write as the command says
        self.shield = shield
        self._command = tuple(command)
        self._environ = dict(environ)
        self._home = home.absolute()

    @classmethod
    def of_experiment(
        cls,
        command: Sequence[str],
        cwd: str,
        environ: Mapping[str, str],
        store: Store,
        key: str,
        options: TrialOptions,
        say: Callable[[str], None],
        seconds_left: Callable[[], float],
        program: ProgramVersions,
        jobs: int = 1,
        is_local: bool = True,
        ask: Callable[[str], bool] = lambda question: False,
    ) -> TrialSetup:
        """For an experiment called `key`, with as many trials at once as `jobs`.

        Raises UsageError for a command that cannot be started.
        """
        try:
            find_program(command[0], environ)
        except CommandNotStarted as error:
            raise UsageError(error.message, "Check the command after --.") from None
        environments = Environments(
            command,
            cwd,
            environ,
            store.home,
            key,
            say,
            seconds_left,
            keeps=options.keeps_environments,
            most=max(4, jobs + 2),
        )
        resuming = resuming_of(
            store, command, cwd, environ, options.checkpoint, options.resume_args
        )
        checkpoints = None
        if resuming is not None:
            scratch = scratch_of(store, key)
            checkpoints = CheckpointStart(command, cwd, environ, scratch, resuming, say)
        pattern = resuming.pattern if resuming is not None else None
        shield = Shield(
            command,
            cwd,
            pattern,
            Asking(say, options.may_write, ask),
            store=store,
            is_local=is_local,
            jobs=jobs,
            keeps=options.keeps_outputs,
        )
        return cls(command, environ, store.home, environments, program, checkpoints, shield=shield)

    def why_not(self, change: Change, profile: Profile) -> str | None:
        """The sentence on why a change does not apply or cannot be tried, or None."""
        if change.needs_environment:
            return self.environments.why_not(change)
        return why_not(change, profile, self._command, self._environ, has_trees=True)

    def ready(
        self,
        changes: Sequence[Change],
        profile: Profile,
        command: tuple[str, ...] | None = None,
    ) -> ReadyTrial:
        """Make a trial ready, of another `command` from its very beginning if one is given.

        Raises EnvironmentNotBuilt, and DoesNotApply for what `why_not` has a sentence on.
        """
        if command is not None or self.checkpoints is None:
            place = Place(command or self._command)
        else:
            place = self.checkpoints.place()
        environ = {**self._environ, **place.variables}
        prepared: Prepared | None = None
        try:
            layers = self.shield.layers(self.checkpoints.elsewhere if self.checkpoints else ())
            prepared = self.environments.prepare(place.command, environ, changes, profile)
            environ |= prepared.changed.variables
            tree = self.program.place(prepared.changed, environ)
        except BaseException:
            self.environments.leave(prepared)
            place.remove()
            raise
        return ReadyTrial(
            tree.command,
            tree.cwd,
            self._home,
            environ | tree.variables,
            tuple(changes),
            place,
            prepared,
            self,
            layers,
        )

    def close(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.close()
        self.shield.close()
        self.environments.close()
        self.program.close()
