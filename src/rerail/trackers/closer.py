"""The process that closes runs in trackers: `own_process("rerail.trackers.closer")`.

In: on standard input, the folder of a run that died. Out: a `tracker` event in its record for every
run in a tracker, and a line of JSON each on standard output, for whoever still listens. Promises:
a tracker's own package is used in the interpreter and the environment that the program had, by a
child with a deadline, which does not outlive this process; nothing is imported from it here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from rerail.agent import STUB as AGENT_STUB
from rerail.platform.libc import die_with_parent
from rerail.platform.own_process import answers_in, settle_in, tell_whoever_waits
from rerail.records import TrackedRun
from rerail.store import RunFolder, Store, add_event
from rerail.trackers.event_file import write_event_file
from rerail.trackers.material import Material, compose

MOST_SECONDS = 120
CHILD_SECONDS = 45.0  # for all runs of one process; MLflow's first look at a database takes ten
ALL_SECONDS = 100.0  # for all of them, so that this process is not ended before it has told of each
_MOST_ANSWER_BYTES = 1 << 20
_STUB = Path(__file__).parent / "stub" / "rerail_close_runs.py"


def main() -> int:
    asked = settle_in(MOST_SECONDS)
    folder = RunFolder(Path(asked["folder"]))
    runs = folder.tracked_runs()
    until = time.monotonic() + ALL_SECONDS
    with ExitStack() as stack:
        children = [stack.enter_context(_Child(group)) for group in _by_process(runs)]
        try:
            material = compose(folder, Store(asked["home"]))
        except Exception as error:
            for run in runs:
                _conclude(folder, run, {"why": f"there is no report ({type(error).__name__})"})
            return 1
        for run in (run for run in runs if run.tracker == "tensorboard"):
            _conclude(folder, run, _into_events(run, material))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rerail-")))
        reports = scratch / "rerail"  # a name that stays with them in W&B
        reports.mkdir()
        for name, octets in material.reports.items():
            (reports / name).write_bytes(octets)
        for child in children:
            _close(folder, child, material, reports, until - time.monotonic())
    return 0


def _into_events(run: TrackedRun, material: Material) -> dict[str, str]:
    words = {f"rerail/{name}": text for name, text in material.texts.items()}
    words["rerail/report"] = material.reports["report.md"].decode("utf-8", "replace")[: 64 << 10]
    try:
        if not Path(run.run).is_dir():
            return {"why": "its folder is gone"}
        write_event_file(Path(run.run), words, material.last_step, time.time())
    except OSError as error:
        return {"why": (error.strerror or type(error).__name__).lower()}
    return {"did": "told"}


def _by_process(runs: list[TrackedRun]) -> list[list[TrackedRun]]:
    """Runs that the same interpreter can close, one child for each tracker."""
    groups: dict[tuple[str, str, str], list[TrackedRun]] = {}
    seen = set()
    for run in runs:
        if run.tracker != "tensorboard" and (run.tracker, run.run) not in seen:
            seen.add((run.tracker, run.run))
            groups.setdefault((run.python, run.cwd, run.tracker), []).append(run)
    return list(groups.values())


class _Child:
    """The interpreter of the program once more, with the package of one tracker."""

    def __init__(self, runs: list[TrackedRun]) -> None:
        self.runs = runs
        self.trouble = ""  # why nothing is said of a run
        self._process: subprocess.Popen[bytes] | None = None
        first = runs[0]
        kept = {name: text for name, text in os.environ.items() if not name.startswith("RERAIL_")}
        try:
            self._process = subprocess.Popen(
                [
                    *(first.python, str(_STUB), first.tracker, first.package),
                    *(str(AGENT_STUB), str(MOST_SECONDS)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=kept,
                cwd=first.cwd,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not known"
            self.trouble = f"its interpreter cannot be started ({why.lower()})"

    def __enter__(self) -> _Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            with suppress(OSError):  # it and whatever it has started
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def ask(self, asked: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
        child = self._process
        if child is None:
            return []
        seconds = max(0.1, min(seconds, CHILD_SECONDS))
        said = b""
        try:
            said, _ = child.communicate(json.dumps(asked).encode(), timeout=seconds)
            self.trouble = "the process that should close it failed"
        except subprocess.TimeoutExpired as error:
            said, self.trouble = error.stdout or b"", f"no answer within {seconds:.0f} s"
        return answers_in(said[:_MOST_ANSWER_BYTES])


def _close(
    folder: RunFolder, child: _Child, material: Material, reports: Path, seconds: float
) -> None:
    asked = {
        "status": "KILLED" if material.was_ended_by_somebody else "FAILED",
        "exit_code": material.exit_code,
        "texts": material.texts,
        "files": [str(reports / name) for name in material.reports],
        "scratch": str(reports.parent),
        "started_unix": material.started_unix,
        "ended_unix": material.ended_unix,
        "elapsed_seconds": material.elapsed_seconds,
        "runs": [asdict(run) for run in child.runs],
    }
    began = time.monotonic()
    by_run = {answer.get("run"): answer for answer in child.ask(asked, seconds)}
    for run in child.runs:
        found = by_run.get(run.run, {"why": child.trouble})
        answer: dict[str, str] = {n: str(found[n]) for n in ("did", "why") if n in found}
        if "why" in answer:
            answer["why"] = material.redactor.mask(answer["why"])
        _conclude(folder, run, answer, time.monotonic() - began)


def _conclude(
    folder: RunFolder, run: TrackedRun, answer: dict[str, str], seconds: float = 0.0
) -> None:
    """Into the record, and to whoever waits."""
    told = {"tracker": run.tracker, "run": run.run, **answer}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    add_event(folder.path, "tracker", {**told, "seconds": round(seconds, 3), "at": at})
    tell_whoever_waits(told)
