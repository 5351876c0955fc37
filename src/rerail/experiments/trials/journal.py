"""What an investigation has learnt, on disk after every trial, so that it can be taken up again.

One file per command and set of changes: `investigations/<key>.json` in the store. It is replaced
whole, never edited: an interruption costs the trial that was under way.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rerail.changes import Profile
from rerail.errors import UnreadableInput
from rerail.experiments.trials.exposure import Unit
from rerail.experiments.trials.failure import Failure
from rerail.experiments.trials.start import Start
from rerail.experiments.trials.trial import Trial
from rerail.privacy import Masker
from rerail.store import layout, loads, read_regular

SCHEMA = 1
FOLDER = "investigations"
MOST_BYTES = 64 << 20  # ten thousand trials and more


def key_of(command: Sequence[str], cwd: str, tries: Sequence[str]) -> str:
    text = json.dumps([cwd, list(command), sorted(tries)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass
class TrialJournal:
    path: Path
    key: str
    command: list[str]
    tries: list[str]  # as asked for; empty: rerail's own choice
    changes: list[str] = field(default_factory=list)  # under investigation
    dropped: dict[str, str] = field(default_factory=dict)  # change -> why it is not
    failure: Failure | None = None
    causes: dict[str, float] = field(default_factory=dict)
    phase: str | None = None  # what the run was at when it failed
    unit: Unit = "seconds"
    profile: Profile = field(default_factory=Profile)
    earlier_crashes: list[float] = field(default_factory=list)
    earlier_survivals: list[float] = field(default_factory=list)
    earlier_runs: list[str] = field(default_factory=list)
    earlier_seconds: float = 0.0
    raising: dict[str, Any] | None = None  # a `Raise`, once one was thought of
    start: dict[str, Any] | None = None  # a `Start`, once a checkpoint was thought of
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)  # those that were built
    trials: list[Trial] = field(default_factory=list)
    seconds: float = 0.0
    answer: dict[str, Any] | None = None

    @classmethod
    def open(
        cls, home: Path, command: Sequence[str], cwd: str, tries: Sequence[str], *, is_fresh: bool
    ) -> TrialJournal:
        key = key_of(command, cwd, tries)
        path = home / FOLDER / f"{key}.json"
        empty = cls(path, key, list(command), list(tries))
        if is_fresh or not path.exists():
            return empty
        try:
            document = loads(read_regular(path, MOST_BYTES))
            return empty._filled(document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableInput(
                f"{path} cannot be read: {type(error).__name__}: {error}",
                "Start anew with --fresh; the trials themselves are kept as runs.",
            ) from None

    def _filled(self, document: dict[str, Any]) -> TrialJournal:
        schema = document.get("schema")
        if schema != SCHEMA:
            raise ValueError(f"schema {schema}; this rerail reads {SCHEMA}")
        for name in ("changes", "dropped", "causes", "unit", "seconds", "answer"):
            setattr(self, name, document[name])
        for name in ("earlier_crashes", "earlier_survivals", "earlier_runs"):
            setattr(self, name, document[name])
        # Not in the first journals:
        for name in ("phase", "earlier_seconds", "raising", "start", "environments"):
            setattr(self, name, document.get(name, getattr(self, name)))
        self.failure = Failure(**document["failure"]) if document["failure"] else None
        profile = document["profile"]
        profile["loaders"] = tuple(profile["loaders"])
        profile["openmp_paths"] = tuple(tuple(pair) for pair in profile["openmp_paths"])
        self.profile = Profile(**profile)
        self.trials = [Trial.from_json(trial) for trial in document["trials"]]
        return self

    @property
    def raised(self) -> tuple[str, ...]:
        """What all trials run with since it was found to make the failure come sooner."""
        is_adopted = self.raising is not None and self.raising["state"] == "adopted"
        return tuple(self.raising["changes"]) if self.raising and is_adopted else ()

    @property
    def checkpoint(self) -> str:
        """Where all trials begin since the failure was found to come from there too."""
        start = self._start()
        return start.checkpoint if start is not None and start.state == "adopted" else ""

    @property
    def skipped(self) -> float:
        """What of the way to a failure at one place lies before the checkpoint."""
        start = self._start()
        is_adopted = start is not None and start.state == "adopted"
        return start.skipped or 0.0 if start is not None and is_adopted else 0.0

    def _start(self) -> Start | None:
        return Start.from_json(self.start) if self.start is not None else None

    def comparable_trials(self) -> list[Trial]:
        """Those that say something about each other: raised alike, and begun at one place."""
        alike = [trial for trial in self.trials if trial.raised == self.raised]
        here = [trial for trial in alike if trial.checkpoint == self.checkpoint]
        if self.checkpoint:
            return here
        # Clean steps from a checkpoint that was not kept were run as well as any others. To leave
        # them out would count only those starts from which it fails. They are no whole run.
        clean = [
            replace(trial, outcome="stopped")
            for trial in alike
            if trial.checkpoint and not trial.changes and trial.outcome in ("stopped", "finished")
        ]
        return [*clean, *here]

    def earlier_lives(self) -> tuple[list[float], list[float]]:
        """Crashes and survivals of runs before the investigation, counted as trials are."""
        start = self._start()
        if start is None:
            return self.earlier_crashes, self.earlier_survivals
        return start.earlier(self.earlier_crashes, self.earlier_survivals)

    def comparable_earlier(self) -> tuple[list[float], list[float]]:
        """Of these, what says something about trials; none of them was raised."""
        return ([], []) if self.raised else self.earlier_lives()

    def seconds_to_failure(self) -> float:
        """On average, of the command as it is."""
        unchanged = [t for t in self.trials if not t.changes and not t.raised]
        if self.checkpoint:
            return sum(t.distance.seconds for t in unchanged if t.checkpoint) / max(
                1, sum(t.outcome == "crashed" for t in unchanged if t.checkpoint)
            )
        crashes = len(self.earlier_crashes) + sum(t.outcome == "crashed" for t in unchanged)
        seconds = self.earlier_seconds + sum(t.distance.seconds for t in unchanged)
        return seconds / max(1, crashes)

    def save(self) -> None:
        layout.make_folder(self.path.parent)
        document = {
            "schema": SCHEMA,
            "key": self.key,
            "command": Masker().mask_command(self.command),  # trials run what was typed
            "tries": self.tries,
            "changes": self.changes,
            "dropped": self.dropped,
            "failure": self.failure.to_json() if self.failure else None,
            "causes": self.causes,
            "unit": self.unit,
            "profile": vars(self.profile),
            "earlier_crashes": self.earlier_crashes,
            "earlier_survivals": self.earlier_survivals,
            "earlier_runs": self.earlier_runs,
            "phase": self.phase,
            "earlier_seconds": self.earlier_seconds,
            "raising": self.raising,
            "start": self.start,
            "environments": self.environments,
            "trials": [trial.to_json() for trial in self.trials],
            "seconds": self.seconds,
            "answer": self.answer,
        }
        layout.replace_file(self.path, json.dumps(document, indent=1).encode() + b"\n")
        os.chmod(self.path, layout.FILE_MODE)  # noqa: PTH101 - commands may hold secrets
