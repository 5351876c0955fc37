"""The side of `rerail run`: starts the process that closes runs in trackers, and waits a moment.

In: the folder of a run that died. Out: sentences on what was closed, and what was not. Promises:
without a tracker in the run no process is started; nothing here raises; the exit status waits for
the patience of `platform.own_process` at most, and what takes longer goes on by itself and is
written into the run's events.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from rerail.errors import RerailError
from rerail.platform.own_process import answers_of, patience_seconds, start_own_process
from rerail.records import TrackedRun
from rerail.store import RunFolder

NAMES = {"mlflow": "MLflow", "wandb": "W&B", "tensorboard": "TensorBoard"}
VARIABLE = "RERAIL_NO_TRACKERS"
_MOST_SAID = 4


class Closing:
    """Under way. `notices` waits for it, as long as our patience lasts."""

    def __init__(
        self, folder: Path, runs: list[TrackedRun], process: subprocess.Popen[bytes] | None
    ) -> None:
        self._folder = folder
        self._runs = runs
        self._process = process
        self._began = time.monotonic()

    def notices(self) -> list[str]:
        if self._process is None:
            return ["its runs in trackers stay open: the process that closes them did not start"]
        left = patience_seconds() - (time.monotonic() - self._began)
        answers = answers_of(self._process, max(left, 0.0))
        said = [_sentence(answer) for answer in answers]
        if len(said) > _MOST_SAID:
            said[_MOST_SAID:] = [f"{len(said) - _MOST_SAID} more: {self._folder}/events.jsonl"]
        missing = len(self._runs) - len(answers)
        if missing > 0 and self._process.poll() is None:
            name = NAMES[self._runs[0].tracker]
            said.append(f"{name} has not answered yet; {self._folder.name}/events.jsonl will say")
        elif missing > 0:
            said.append("a run in a tracker stays open: the process that closes it failed")
        return said


def close_tracked_runs(folder: Path, home: Path, environ: Mapping[str, str]) -> Closing | None:
    """None: the run has left nothing open in a tracker. `environ` is what the command had."""
    try:
        runs = [run for run in RunFolder(folder).tracked_runs() if run.tracker in NAMES]
    except (RerailError, OSError):
        return None
    if not runs:
        return None
    asked = {"folder": str(folder), "home": str(home.absolute())}
    process = start_own_process("rerail.trackers.closer", asked, environ, listens=True)
    return Closing(folder, runs, process)


def _sentence(answer: dict[str, str]) -> str:
    name, run = NAMES.get(answer["tracker"], answer["tracker"]), answer["run"]
    shown = f"run {run[:8]}" if answer["tracker"] == "mlflow" else f"run {run}"
    if answer["tracker"] == "tensorboard":
        shown = Path(run).name
    if "why" in answer:
        return f"{name} {shown} was left as it is: {answer['why']}"
    if answer["tracker"] == "tensorboard":
        return f"{name} {shown}: the cause stands under Text"
    return f"{name} {shown} is closed as {answer['did']}, with the cause"
