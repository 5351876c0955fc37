"""Recording one worker of Ray, and keeping what Ray's own logs say of its end.

In: the worker's command as Ray has made it. Out: a run whose settings name the Ray job, worker and
node, with an event `ray`: which actor it was, and what Ray said of its end. Ray reads a worker's
process group when the worker reports, and ends that group after it, so the worker gets one without
us in it: what Ray kills is the worker, and we see how it ended.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rerail.privacy import Masker
from rerail.ray.logs import said_of_worker
from rerail.recorder import CommandNotStarted, Recording, record
from rerail.scheduling import TaskOptions
from rerail.store import RunFolder, Store, add_event

_KEPT = {"--worker-id": "worker", "--node-id": "node", "--node-ip-address": "ip"}
_SESSION = {"--temp-dir", "--session-name"}


def record_worker(command: Sequence[str], home: str, job: str) -> int:
    given = _given(command)
    about = {name: given[flag] for flag, name in _KEPT.items() if flag in given}
    options = TaskOptions(
        label=f"ray worker {about.get('worker', '')[:8]}".strip(),
        is_quiet=True,
        owns_process=True,
        has_own_group=True,
        extra={"ray": {"job": job, **about}},
    )
    try:
        recording = record(command, Store(home), options)
    except CommandNotStarted as error:
        return error.exit_code
    _keep_words(recording, given, about.get("worker", ""))
    if recording.signal_number is not None:
        return 128 + recording.signal_number
    return recording.exit_code or 0


def _given(command: Sequence[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in command if word.startswith("--"))
    return {flag: value for flag, _, value in pairs if flag in _KEPT.keys() | _SESSION}


def _keep_words(recording: Recording, given: dict[str, str], worker: str) -> None:
    """What fails here costs the words of Ray alone."""
    try:
        pid = RunFolder(recording.folder).info().root_pid
        if pid is None or not given.keys() >= _SESSION:
            return
        logs = Path(given["--temp-dir"], given["--session-name"], "logs")
        words = said_of_worker(logs, worker, pid)
        masker = Masker()
        masker.learn_environment(os.environ)
        add_event(recording.folder, "ray", masker.mask_value(words.to_json(pid)))
    except Exception:
        return
