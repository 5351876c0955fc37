"""The process that shares a run with its job: `own_process("rerail.jobs.sharer")`, once per run.

In: on standard input, the run's folder and the job's place. Out: there, a hello, a beat every few
seconds, a copy of the record, and a goodbye. Promises: it only reads the run; a place that hangs or
fails delays nobody but this process, and it tries again; it ends by itself, at the latest
LINGER_SECONDS after the run, or a little later if a call to the place never comes back. Not copied:
`private.jsonl`, and `agent/` until the recorder has ended the run and masked it; of a run whose
recorder was lost, never.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from rerail.jobs.beat import Pulse
from rerail.jobs.place import Place, open_place
from rerail.jobs.records import BEAT, GOODBYE, HELLO, SCHEMA
from rerail.records import RunInfo
from rerail.store import RunFolder, dumps, layout, liveness

LINGER_SECONDS = 120.0  # for a place that cannot be reached just now
_HANG_SECONDS = 30.0  # more, for a call to the place that does not come back
_WATCH_SECONDS = 5.0
_COPY_SECONDS = 20.0  # between two copies of what has grown
_MOST_WHILE_LIVE_BYTES = 4 << 20  # of one file
_MOST_BYTES = 128 << 20
_CHILDREN = 8  # whose stamps a node reads, beside its parent's: all clocks hang in one flat tree
_FIND_SECONDS, _FIND_RARELY_SECONDS = 10.0, 120.0  # who else is there, at first and later
_MOST_SIGN_BYTES = 1 << 20
_LOOK_SECONDS = 0.2
_LOST_SECONDS = 5.0
_NOT_SHARED = {layout.PRIVATE, layout.RESERVE}


def main() -> int:
    _settle_in()
    asked = json.loads(sys.stdin.buffer.read())
    with suppress(Exception):  # nobody is there to be told
        Sharer(asked).run()
    return 0


def _settle_in() -> None:
    """Whoever started us may block or ignore signals."""
    for number in signal.valid_signals() - {signal.SIGPIPE}:
        with suppress(OSError, ValueError):  # KILL and STOP
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the grace period is for the last words
    with suppress(OSError):
        os.nice(10)


class Sharer:
    def __init__(self, asked: dict[str, Any]) -> None:
        self._folder = RunFolder(Path(asked["folder"]))
        self._hello: dict[str, Any] = asked["hello"]
        self._node = str(self._hello["node"])
        self._beat_seconds = float(asked["beat_seconds"])
        self._where, self._job = str(asked["place"]), str(asked["job"])
        info = self._folder.info()
        self._run = self._folder.id
        self._pulse = Pulse(self._folder.path, info.t0_ns, self._beat_seconds)
        self._place: Place | None = None
        self._has_said_hello = False
        self._failing_since: float | None = None
        self._copied: dict[str, tuple[int, int]] = {}
        self._peers: list[str] = []
        self._find_at = 0.0
        self._began = time.monotonic()

    def run(self) -> None:
        threading.Thread(target=self._leave_when_overdue, daemon=True).start()
        next_beat = next_copy = 0.0
        seen_at = time.monotonic()
        while True:
            now = time.monotonic()
            info = self._info()
            if info is not None:
                seen_at = now
            is_lost = now - seen_at > _LOST_SECONDS
            if is_lost or (info is not None and info.state != "running"):
                break
            if now >= next_beat:
                next_beat = now + self._beat_seconds
                if self._attempt(self._beat) and now >= next_copy:
                    next_copy = now + _COPY_SECONDS
                    self._attempt(lambda: self._copy(is_over=False, is_masked=False))
            else:
                self._pulse.look()
            time.sleep(_LOOK_SECONDS)
        self._end(info)

    def _end(self, info: RunInfo | None) -> None:
        """The last words first, then what takes long."""
        until = time.monotonic() + LINGER_SECONDS
        goodbye = self._goodbye(info)
        is_masked = info is not None and info.state == "ended"
        steps = [
            self._beat,
            lambda: self._write(GOODBYE, {**goodbye, "is_complete": False}),
            lambda: self._copy(is_over=True, is_masked=is_masked),
            lambda: self._write(GOODBYE, {**goodbye, "is_complete": True}),
        ]
        while steps and time.monotonic() < until:
            if self._attempt(steps[0]):
                steps.pop(0)
            else:
                self._pulse.look()
                time.sleep(min(self._beat_seconds, 2.0))

    def _leave_when_overdue(self) -> NoReturn:
        """Not every store has a limit for its answers, and a network file system has none."""
        times_over = 0  # in a row: a run.json that cannot be read just now is no end
        while times_over < 3:
            time.sleep(_WATCH_SECONDS)
            info = self._info()
            times_over = 0 if info is not None and info.state == "running" else times_over + 1
        time.sleep(LINGER_SECONDS + _HANG_SECONDS)
        os._exit(1)

    def _info(self) -> RunInfo | None:
        with suppress(Exception):
            return self._folder.info()
        return None

    def _attempt(self, do: Any) -> bool:
        """Whether it worked. When it works again, how long it did not is part of the record."""
        try:
            if self._place is None:
                self._place = open_place(self._where, self._job)
            if not self._has_said_hello:
                self._write(HELLO, self._hello)
                self._has_said_hello = True
            do()
        except Exception:
            if self._failing_since is None:
                self._failing_since = self._pulse.now()
            return False
        if self._failing_since is not None:
            self._pulse.was_silent(self._failing_since, self._pulse.now())
            self._failing_since = None
        return True

    def _write(self, sign: str, document: dict[str, Any]) -> None:
        assert self._place is not None
        name = f"{self._node}/{self._run}.{sign}.json"
        self._place.write(name, dumps(document).encode() + b"\n")

    def _beat(self) -> None:
        self._write(BEAT, self._pulse.beat())
        self._listen()

    def _listen(self) -> None:
        """Read the stamps of a few others: enough to chain all clocks together."""
        assert self._place is not None
        now = time.monotonic()
        if now >= self._find_at:
            self._peers = self._find_peers(self._place)
            is_early = not self._peers or now - self._began < _FIND_RARELY_SECONDS
            self._find_at = now + (_FIND_SECONDS if is_early else _FIND_RARELY_SECONDS)
        for name in self._peers:
            with suppress(Exception):  # theirs may be anything, and must not keep us from our own
                beat = json.loads(self._place.read(name, _MOST_SIGN_BYTES))
                self._pulse.heard(name.partition("/")[0], float(beat["t"]))

    def _find_peers(self, place: Place) -> list[str]:
        """Its parent and its children in the tree of all nodes, in the order of their names."""
        newest: dict[str, str] = {}
        for name in place.signs(BEAT):
            node = name.partition("/")[0]
            newest[node] = max(newest.get(node, ""), name)
        nodes = sorted({*newest, self._node})
        own = nodes.index(self._node)
        children = nodes[_CHILDREN * own + 1 : _CHILDREN * own + _CHILDREN + 1]
        parent = [nodes[(own - 1) // _CHILDREN]] if own else []
        return [newest[node] for node in (*parent, *children)]

    def _copy(self, *, is_over: bool, is_masked: bool) -> None:
        assert self._place is not None
        most = _MOST_BYTES if is_over else _MOST_WHILE_LIVE_BYTES
        path = self._folder.path
        for file in sorted(path.rglob("*")):
            name = file.relative_to(path).as_posix()
            if file.is_symlink() or not file.is_file() or name in _NOT_SHARED:
                continue
            if not is_masked and name.startswith(f"{layout.AGENT}/"):
                continue
            status = file.stat()
            seen = (status.st_size, status.st_mtime_ns)
            if self._copied.get(name) == seen or (not is_over and status.st_size > most):
                continue
            with suppress(FileNotFoundError):
                self._place.put(file, f"{self._node}/{layout.RUNS}/{self._run}/{name}", most)
            self._copied[name] = seen

    def _goodbye(self, info: RunInfo | None) -> dict[str, Any]:
        outcome = info.outcome if info is not None else None
        return {
            "schema": SCHEMA,
            "unix": round(time.time(), 3),
            "t": info.elapsed_seconds if info is not None else self._pulse.now(),
            "state": info.state if info is not None else "lost",
            "outcome": outcome.kind if outcome is not None else "unknown",
            "summary": outcome.summary if outcome is not None else "",
            "exit_code": outcome.exit_code if outcome is not None else None,
            "signal": outcome.signal if outcome is not None else None,
        }


def hello_of(membership: dict[str, Any], info: RunInfo, beat_seconds: float) -> dict[str, Any]:
    """What a node says of itself at the start; its two clocks as close together as they can be."""
    t = (time.monotonic_ns() - info.t0_ns) / 1e9
    return {
        "schema": SCHEMA,
        **membership,
        "run": info.id,
        "attempt": info.settings.get("attempt", 1),
        "boot_id": liveness.scope().partition(" ")[0],
        "rerail_version": info.rerail_version,
        "beat_seconds": beat_seconds,
        "unix": round(time.time(), 3),
        "t": round(t, 3),
    }
