"""Further processes of rerail's own: how one is started, asked, waited for, and how it begins.

In: the name of a module with a `main`, and what it is asked, as JSON on its standard input. Out:
lines of JSON on its standard output, for as long as somebody waits. Promises: no module of the
user's working folder is taken for one of ours; nothing here raises for a process that fails.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import rerail
from rerail import bare

# Not -m, which would look for modules in the working folder first: a json.py of the user's is not
# meant for us. Our own folder comes last, for a caller that found us by a path of its own. With -S,
# what `launcher/rerail-python` leaves out of Python's start is left out here too.
_START = """\
import sys
sys.path[:] = [path for path in sys.path if path]
if sys.flags.no_site:
    import site
    site.execsitecustomize = site.execusercustomize = lambda: None
    site.main()
sys.path[:] = [path for path in sys.path if path]
sys.path.append({folder!r})
from rerail import bare
bare.give_back_variables()
from {module} import main
sys.exit(main())
"""

# -E does not keep this variable from an interpreter; `launcher/rerail` does the same.
_WITHOUT_EXECUTABLE = """\
executable=$PYTHONEXECUTABLE
unset PYTHONEXECUTABLE
exec "$0" -X "rerail_executable=$executable" "$@"
"""

PATIENCE_SECONDS = 3.0
# All other processes of a container are killed with its first one, so that one waits longer.
PATIENCE_OF_THE_FIRST_SECONDS = 15.0
_has_patience = True


def own_process(module: str) -> list[str]:
    """Return the command that calls `main` of this module, with arguments of its own behind it.

    As far as this process is out of reach of the user's PYTHON* variables, that one is too.
    """
    folder = str(Path(rerail.__file__).parent.parent)
    return [*own_interpreter(), "-c", _START.format(folder=folder, module=module)]


def own_interpreter() -> list[str]:
    """Return this interpreter with the flags that `launcher/rerail` gave it."""
    flags = [("-E", sys.flags.ignore_environment), ("-S", sys.flags.no_site)]
    flags += [("-s", sys.flags.no_user_site), ("-B", sys.flags.dont_write_bytecode)]
    command = [sys.executable, *(flag for flag, is_set in flags if is_set)]
    if sys.flags.ignore_environment and os.environ.get("PYTHONEXECUTABLE"):
        return [bare.SHELL, "-c", _WITHOUT_EXECUTABLE, *command]
    return command


def start_own_process(
    module: str, asked: dict[str, Any], environ: Mapping[str, str], *, listens: bool
) -> subprocess.Popen[bytes] | None:
    """It outlives us if need be. None: no process could be started."""
    try:
        process = subprocess.Popen(
            own_process(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if listens else subprocess.DEVNULL,
            stderr=None if os.environ.get("RERAIL_DEBUG") == "1" else subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,  # what ends the run's group or session leaves it alone
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked).encode())  # less than a pipe holds: no waiting
        process.stdin.close()
    except (OSError, subprocess.SubprocessError):
        return None
    return process


def patience_seconds() -> float:
    """How long the exit status of a run may wait for a process that does something about it."""
    if not _has_patience:
        return 0.0
    return PATIENCE_OF_THE_FIRST_SECONDS if os.getpid() == 1 else PATIENCE_SECONDS


def lose_patience() -> None:
    """Whoever waits for rerail has pressed Ctrl-C: what was begun goes on, unwaited for."""
    global _has_patience
    _has_patience = False


def answers_of(process: subprocess.Popen[bytes], seconds: float) -> list[dict[str, Any]]:
    """What it has to say, line by line, until it is done or our patience is."""
    until = time.monotonic() + seconds
    said = b""
    for data in _read(process, until):
        said += data
    return answers_in(said)


def first_answer(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
    """Of a process that goes on afterwards. None: it said nothing in that time, or has ended."""
    said = b""
    for data in _read(process, time.monotonic() + seconds):
        said += data
        if answers := answers_in(said):
            return answers[0]
    return None


def _read(process: subprocess.Popen[bytes], until: float) -> Iterator[bytes]:
    """What it prints, as it comes.

    A process closes what it prints to a moment before it has ended. At that end this waits for it
    a little: `poll` then says that it has ended, not that it still runs.
    """
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while (left := until - time.monotonic()) > 0 and poll.poll(left * 1000):
        data = os.read(descriptor, 1 << 16)
        if not data:
            with suppress(subprocess.TimeoutExpired):
                process.wait(min(1.0, max(0.1, until - time.monotonic())))
            return
        yield data


def answers_in(said: bytes) -> list[dict[str, Any]]:
    """Whole lines alone, and only ours: an interpreter may print at its start (sitecustomize)."""
    answers = []
    for line in said.splitlines(keepends=True):
        with suppress(ValueError):
            answer = json.loads(line)
            if line.endswith(b"\n") and isinstance(answer, dict):
                answers.append(answer)
    return answers


def settle_in(most_seconds: int) -> dict[str, Any]:
    """At the beginning of such a process: what it is asked. It ends after `most_seconds`.

    Whoever started us may be the recorder or its guardian, who block or ignore signals.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE}:
        with suppress(OSError, ValueError):  # KILL and STOP
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(most_seconds)
    asked: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    return asked


def tell_whoever_waits(answer: dict[str, Any]) -> None:
    with suppress(OSError):  # nobody waits any more
        os.write(1, json.dumps(answer).encode() + b"\n")
