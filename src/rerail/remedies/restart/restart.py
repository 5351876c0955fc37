"""Run a command, and when it dies go on: from its newest sound checkpoint, with a remedy.

In: a command, how it is told to resume, and what may be changed. Out: a `Story` of attempts, each a
recorded run that names the one before it. Promises: what somebody stopped is not started again; a
failure that would only come back is not tried again; every change is said and recorded; nothing of
the user's is moved, overwritten or deleted.
"""

from __future__ import annotations

import os
import shlex
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from rerail.catalogue import load_catalogue
from rerail.changes import Profile
from rerail.checkpoints import Choice, checked_resume, choose_checkpoint, find_checkpoints
from rerail.errors import RerailError
from rerail.jobs import elastic_nodes
from rerail.recorder import CommandNotStarted, Recording, RunOptions, record
from rerail.remedies.restart.apply import Applied, apply_remedies, merged, prescribe
from rerail.remedies.restart.death import Death, read_death
from rerail.remedies.restart.judgement import (
    Attempt,
    refuses_checkpoint,
    why_leave,
    why_not_again,
    why_stop,
)
from rerail.remedies.restart.story import Story, attempt_in_words
from rerail.scheduling import TaskOptions
from rerail.store import RunFolder, Store

LONGEST_WAIT_SECONDS = 300.0
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class RestartOptions:
    restarts: int = 0
    checkpoint: str | None = None  # a pattern
    resume_args: str | None = None
    allowed: frozenset[str] = frozenset()  # safeties beside `safe`
    backoff_seconds: float = 5.0


class Reporter(Protocol):
    """Who is told while it works."""

    def said(self, text: str) -> None: ...

    def goes_on(self, text: str) -> None:
        """Another attempt follows the one that has ended: which, and from where."""

    def ended(self, recording: Recording) -> None:
        """An attempt has ended; its diagnosis is in its folder."""


class _StopAsked(BaseException):
    """Somebody sent a signal while no command was running."""


def run_with_restarts(
    command: Sequence[str],
    store: Store,
    run_options: RunOptions,
    options: RestartOptions,
    reporter: Reporter,
) -> Story:
    """Raises CommandNotStarted if there is no such program."""
    return _Restarting(command, store, run_options, options, reporter).run()


class _Restarting:
    def __init__(
        self,
        command: Sequence[str],
        store: Store,
        run_options: RunOptions,
        options: RestartOptions,
        reporter: Reporter,
    ) -> None:
        self._command = tuple(command)
        self._store = store
        # Streams and descriptors are needed again for the next attempt.
        self._run_options = replace(run_options, owns_process=False)
        self._options = options
        self._reporter = reporter
        self._resume = checked_resume(
            command, run_options.environ, options.checkpoint, options.resume_args
        )
        self._catalogue = load_catalogue()
        self._attempts: list[Attempt] = []
        self._remedies: list[Applied] = []
        self._refuted: set[tuple[str, str]] = set()
        self._refused: dict[Path, str] = {}
        self._profile = Profile()
        self._input_begin = _place_in_input()
        self._began_unix = time.time()

    def run(self) -> Story:
        with _signals_stop_the_story():
            begin = {"attempt": 1, "restarts": self._options.restarts, **self._resuming}
            plan = _Plan(self._command, {}, begin)
            try:
                recording = self._record(plan)
            except _StopAsked:
                raise KeyboardInterrupt from None  # nothing has begun
            while True:
                try:
                    following = self._follow(recording, plan)
                except _StopAsked:
                    following = "stopped between two attempts"
                except RerailError as error:
                    following = error.message
                except Exception as error:
                    # The command is over, and how it ended must not be lost to a fault of ours.
                    following = f"{type(error).__name__}: {error}"
                if isinstance(following, str):
                    return self._end(recording, following)
                recording, plan = following

    def _follow(self, recording: Recording, plan: _Plan) -> tuple[Recording, _Plan] | str:
        """The next attempt, run to its end; or why there is none."""
        if not recording.store_answers:
            self._reporter.ended(recording)
            return "its record could not be written; the disk may hang"
        death = self._take_note(recording, plan)
        has_new_remedy = death is not None and self._prescribe(death)
        why = why_stop(
            self._attempts, has_new_remedy=has_new_remedy, restarts=self._options.restarts
        )
        if why is None and not has_new_remedy:
            why = why_leave(self._attempts, *elastic_nodes(self._command))
        if why is not None:
            return why
        choice = self._choose()
        if self._options.checkpoint is not None and choice.chosen is None:
            why = why_not_again(self._attempts, has_new_remedy=has_new_remedy, resumes=False)
            if why is not None:
                return why
        following = self._next_plan(choice)
        self._wait()
        try:
            return self._record(following), following
        except CommandNotStarted as error:
            return error.message

    def _end(self, recording: Recording, why: str) -> Story:
        is_well = recording.outcome.kind == "ok"
        if not is_well:
            self._say(f"not started again: {why}")
        if len(self._attempts) > 1:
            for attempt in self._attempts:
                self._say(attempt_in_words(attempt))
        if is_well and self._remedies:
            changes = [change for remedy in self._remedies for change in remedy.changes]
            fix = " ".join(f"--with {shlex.quote(change)}" for change in changes)
            self._say(f"to prove the fix: rerail verify {fix} -- {shlex.join(self._command)}")
        return Story(recording, self._attempts, why)

    def _record(self, plan: _Plan) -> Recording:
        if self._input_begin is not None:
            os.lseek(0, self._input_begin, os.SEEK_SET)  # the attempt before has read it
        options = TaskOptions(
            **{
                **vars(self._run_options),
                "label": self._run_options.label or plan.label,
                "environ": {**self._run_options.environ, **plan.variables},
            },
            extra=plan.settings,
        )
        return record(plan.command, self._store, options)

    def _take_note(self, recording: Recording, plan: _Plan) -> Death | None:
        folder = RunFolder(recording.folder)
        try:
            death = read_death(folder, self._store, self._catalogue)
        finally:
            self._reporter.ended(recording)
        attempt = Attempt(
            number=len(self._attempts) + 1,
            run=folder.id,
            remedies=tuple(self._remedies),
            checkpoint=plan.checkpoint,
            base_step=plan.base_step,
            death=death,
        )
        self._attempts.append(attempt)
        if death is not None:
            self._profile = merged(self._profile, death.profile)
        if refuses_checkpoint(attempt) and attempt.checkpoint and death:
            why = f"the program could not load it ({death.cause})"
            self._refused[attempt.checkpoint] = why
        return death

    def _prescribe(self, death: Death) -> bool:
        """Drop remedies that did not help, and look for one that may; whether one was found."""
        for remedy in [each for each in self._remedies if each.cause == death.failure.cause]:
            self._say(f"{' '.join(remedy.changes)} did not help: {death.cause} again {death.where}")
            self._remedies.remove(remedy)
            self._refuted.add(remedy.key)
        found = prescribe(
            death.leading,
            allowed=self._options.allowed,
            refuted=self._refuted | {each.key for each in self._remedies},
            command=self._command,
            environ=self._run_options.environ,
            profile=self._profile,
        )
        if found.remedy is not None and not death.stopped_by:
            self._remedies.append(found.remedy)
            return True
        for withheld in found.withheld:
            self._say(f"not applied: {withheld.words}; --allow {withheld.safety} would")
        return False

    def _next_plan(self, choice: Choice) -> _Plan:
        checkpoint = choice.chosen.path if choice.chosen else None
        environ = self._run_options.environ
        words, variables = self._command, dict[str, str]()
        if self._resume is not None and checkpoint is not None:
            resumed = self._resume.apply(words, environ, checkpoint)
            words, variables = resumed.command, resumed.variables
        changed = apply_remedies(words, environ, self._remedies, self._profile)
        variables |= changed.variables
        number = len(self._attempts) + 1
        changes = [change for remedy in self._remedies for change in remedy.changes]
        self._say_plan(number, checkpoint)
        return _Plan(
            command=changed.command,
            variables=variables,
            settings={
                "attempt": number,
                "restarts": self._options.restarts,
                **self._resuming,
                "story": self._attempts[0].run,
                "previous_run": self._attempts[-1].run,
                "resumed_from": str(checkpoint) if checkpoint else None,
                "skipped_checkpoints": {str(s.path): s.problem for s in choice.skipped},
                "changes": changes,
                "remedies": [remedy.id for remedy in self._remedies],
                "changed_environment": variables,
            },
            label=f"attempt-{number}",
            checkpoint=checkpoint,
            base_step=self._base_step(choice),
        )

    @property
    def _resuming(self) -> dict[str, str]:
        """How it goes on from a checkpoint: experiments with this command need it too."""
        options = self._options
        if options.checkpoint is None or options.resume_args is None:
            return {}
        return {"checkpoint": options.checkpoint, "resume_args": options.resume_args}

    def _choose(self) -> Choice:
        pattern = self._options.checkpoint
        if pattern is None:
            return Choice(None)
        death = self._attempts[-1].death
        choice = choose_checkpoint(
            pattern, Path.cwd(), self._refused, death.bad_since_unix if death else None
        )
        choice = self._agreed(pattern, choice)
        for sentence in choice.passed_over():
            self._say(sentence)
        if choice.skipped and choice.chosen and self._resume and not self._resume.names_checkpoint:
            self._say("--resume-args has no {checkpoint}: which one is taken is up to the command")
        if choice.chosen:
            for remark in choice.chosen.remarks:
                self._say(f"checkpoint {choice.chosen.path}: {remark}")
        if choice.chosen and choice.chosen.modified_ns / 1e9 < self._began_unix:
            self._say(f"{choice.chosen.path} was there before this run began")
        if choice.chosen is None:
            there = f"none of {choice.found} loads" if choice.found else "there is none yet"
            self._say(f"no checkpoint for {pattern}: {there}")
        return choice

    def _agreed(self, pattern: str, choice: Choice) -> Choice:
        """Of a job on several nodes: the newest that all of them have."""
        sharing = self._run_options.sharing
        if sharing is None:
            return choice
        own = []
        if choice.chosen is not None:
            paths = find_checkpoints(pattern, Path.cwd())
            is_there = choice.chosen.path in paths
            own = paths[paths.index(choice.chosen.path) :] if is_there else [choice.chosen.path]
        names = [str(path) for path in own]
        agreed, remarks = sharing.agree(len(self._attempts) + 1, names)
        for remark in remarks:
            self._say(remark)
        if agreed is None or not names or agreed == names[0]:
            return choice
        others_lack = dict.fromkeys(own[: names.index(agreed)], "not all nodes of the job have it")
        return choose_checkpoint(pattern, Path.cwd(), {**self._refused, **others_lack})

    def _base_step(self, choice: Choice) -> int | None:
        """How many steps lie before the checkpoint, by the clock of the attempt that wrote it."""
        if choice.chosen is None:
            return 0
        written = choice.chosen.modified_ns / 1e9
        for attempt in reversed(self._attempts):
            step = attempt.death.clock.step_at(written) if attempt.death else None
            if step is not None and attempt.base_step is not None:
                return attempt.base_step + step
        return None

    def _say_plan(self, number: int, checkpoint: Path | None) -> None:
        begin = f"goes on from {checkpoint}" if checkpoint else "begins anew"
        most = self._options.restarts + 1
        self._reporter.goes_on(f"attempt {number} of at most {most} {begin}")
        for remedy in self._remedies:
            self._say(f"applied: {remedy.words}")

    def _wait(self) -> None:
        seconds = self._options.backoff_seconds * 2.0 ** (len(self._attempts) - 1)
        seconds = min(seconds, LONGEST_WAIT_SECONDS)
        if seconds > 0.0:
            self._say(f"it starts in {seconds:g} s; Ctrl-C ends it here")
            time.sleep(seconds)

    def _say(self, text: str) -> None:
        self._reporter.said(text)


@dataclass(frozen=True)
class _Plan:
    command: tuple[str, ...]
    variables: dict[str, str]
    settings: dict[str, Any]
    label: str | None = None
    checkpoint: Path | None = None
    base_step: int | None = 0


def _place_in_input() -> int | None:
    """Where standard input stands, if it is a file that can be read again."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR) if stat.S_ISREG(os.fstat(0).st_mode) else None
    except OSError:
        return None


@contextmanager
def _signals_stop_the_story() -> Iterator[None]:
    """While a command runs the recorder has all signals; in between they end the story."""

    def stop(number: int, frame: object) -> NoReturn:
        raise _StopAsked

    before = {}
    for number in _STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop) or signal.SIG_DFL
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
