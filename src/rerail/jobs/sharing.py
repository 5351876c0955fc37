"""The side of `rerail run`: starts the process that shares a run, and waits a moment for it.

In: the job's place and who we are in it. Out: a process beside the recorder. Promises: nothing here
raises; the end of a run waits for PATIENCE_SECONDS at most.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rerail.errors import UsageError
from rerail.jobs.agreement import agree
from rerail.jobs.membership import Membership, job_id, membership
from rerail.jobs.place import name_place
from rerail.jobs.sharer import hello_of
from rerail.platform.own_process import own_process, patience_seconds
from rerail.store import RunFolder

JOB_VARIABLE, FOLDER_VARIABLE = "RERAIL_JOB", "RERAIL_JOB_DIR"
BEAT_VARIABLE = "RERAIL_JOB_BEAT"
JOBS = "jobs"  # below the home of the store, where nothing else is said
PATIENCE_SECONDS = 5.0
# All other processes of a container are killed with its first one, so that one waits longer.
PATIENCE_OF_THE_FIRST_SECONDS = 20.0
_FOLDER_BEAT_SECONDS = 2.0
_STORE_BEAT_SECONDS = 10.0  # each beat is a request that somebody pays for
_SHORTEST_BEAT_SECONDS = 0.2


class Sharing:
    def __init__(self, member: Membership, place: str, beat_seconds: float) -> None:
        self.member = member
        self.place = place
        self._beat_seconds = beat_seconds
        self._shown = name_place(place, member.job)  # UsageError now, not when the night is over
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def shown(self) -> str:
        return self._shown

    def begin(self, folder: Path) -> list[int]:
        """For a run that is about to start: the pids that are not of the run."""
        info = RunFolder(folder).info()
        asked = {
            "folder": str(folder),
            "place": self.place,
            "job": self.member.job,
            "beat_seconds": self._beat_seconds,
            "hello": hello_of(self.member.to_json(), info, self._beat_seconds),
        }
        try:
            process = subprocess.Popen(
                own_process("rerail.jobs.sharer"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("RERAIL_DEBUG") == "1" else subprocess.DEVNULL,
                start_new_session=True,  # what ends the run's group leaves it alone
            )
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked).encode())  # less than a pipe holds
            process.stdin.close()
        except (OSError, subprocess.SubprocessError):
            return []
        self._processes.append(process)
        return [each.pid for each in self._processes if each.poll() is None]

    def agree(self, attempt: int, names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
        """Which of these checkpoints all nodes go on from, and what there is to say about it."""
        agreed = agree(self.place, self.member.job, self.member.node, attempt, names)
        return agreed.checkpoint, agreed.remarks

    def finish(self) -> list[str]:
        """Wait a moment until the place has everything; what to say if it has not."""
        usual = PATIENCE_OF_THE_FIRST_SECONDS if os.getpid() == 1 else PATIENCE_SECONDS
        patience = usual if patience_seconds() else 0.0
        for process in self._processes[-1:]:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                return [f"{self.shown} does not have all of this run yet; the copying goes on"]
        return []


def sharing_of(
    job: str | None,
    place: str | None,
    environ: Mapping[str, str],
    command: Sequence[str],
    home: Path,
    *,
    nnodes: int | None = None,
) -> Sharing | None:
    """None if this run is of no job. UsageError for a place that cannot be one."""
    job = environ.get(JOB_VARIABLE) if job is None else job_id(job, environ)
    place = place or environ.get(FOLDER_VARIABLE)
    if not job:
        if nnodes or (place and place != environ.get(FOLDER_VARIABLE)):
            raise UsageError(
                "--job-dir and --nnodes are about a job", "Say which one: --job ID, or --job auto"
            )
        return None
    where = place or str(home / JOBS)
    member = membership(job, environ, command, nnodes=nnodes)
    return Sharing(member, where, _beat_seconds(where, environ))


def _beat_seconds(where: str, environ: Mapping[str, str]) -> float:
    usual = _FOLDER_BEAT_SECONDS
    if "://" in where and not where.startswith("file://"):
        usual = _STORE_BEAT_SECONDS
    try:
        said = float(environ[BEAT_VARIABLE])
    except (KeyError, ValueError):
        return usual
    return max(_SHORTEST_BEAT_SECONDS, said) if math.isfinite(said) else usual
