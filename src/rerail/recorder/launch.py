"""Starting the command as the user's shell would have started it.

In: a command line, its environment and three descriptors. Out: the pid of the running command, or
`CommandNotStarted` with the sentence and the exit status that a shell gives (127 not found, 126 not
executable). Promises: mask, dispositions, limits, umask, niceness and every inherited descriptor
are those that `rerail run` itself was given.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rerail.recorder.signals import StartingSignals

SHELL = "/bin/sh"


class CommandNotStarted(Exception):
    """The program is not there, or may not be run."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Launch(NamedTuple):
    """Everything that one start needs."""

    command: Sequence[str]
    environ: Mapping[str, str]
    descriptors: tuple[int, int, int]  # for stdin, stdout and stderr
    closed: frozenset[int]  # standard descriptors that were closed and shall be
    signals: StartingSignals
    has_own_terminal: bool  # stdin is a pseudo-terminal: a session of its own around it

    def start(self) -> int:
        candidates = _candidates(self.command[0], self.environ)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_command(candidates, writing)
        os.close(writing)
        failure = os.read(reading, 4)
        os.close(reading)
        if failure:
            os.waitpid(pid, 0)
            raise _not_started(self.command[0], struct.unpack("=i", failure)[0])
        return pid

    def _become_command(self, candidates: list[str], report: int) -> None:
        """In the child. Nothing may return from here."""
        problem = errno.ENOEXEC
        try:
            if self.has_own_terminal:
                os.setsid()
                fcntl.ioctl(self.descriptors[0], termios.TIOCSCTTY, 0)
            for target, descriptor in enumerate(self.descriptors):
                if target in self.closed:
                    os.close(target)
                elif descriptor != target:
                    os.dup2(descriptor, target, inheritable=True)
            self.signals.restore_in_child()
            problem = self._exec(candidates)
        except OSError as error:
            problem = error.errno or errno.EIO
        finally:
            os.write(report, struct.pack("=i", problem))
            os._exit(127)

    def _exec(self, candidates: list[str]) -> int:
        """Try each place as execvp(3) does; what went wrong if none works."""
        problem = errno.ENOENT
        arguments = list(self.command)
        for path in candidates:
            try:
                os.execve(path, arguments, dict(self.environ))
            except OSError as error:
                if error.errno == errno.ENOEXEC:
                    # A script without a first line that names its interpreter: shells run it.
                    os.execve(SHELL, [SHELL, path, *arguments[1:]], dict(self.environ))
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    problem = error.errno or errno.EIO
        return problem


def find_program(program: str, environ: Mapping[str, str]) -> None:
    """Raise CommandNotStarted at once for a program that is nowhere to be found."""
    problem = errno.ENOENT
    for path in _candidates(program, environ):
        if not Path(path).exists():
            continue
        is_folder = Path(path).is_dir()
        if not is_folder and os.access(path, os.X_OK):
            return
        problem = errno.EISDIR if is_folder and "/" in program else errno.EACCES
    raise _not_started(program, problem)


def _candidates(program: str, environ: Mapping[str, str]) -> list[str]:
    if "/" in program:
        return [program]
    path = environ.get("PATH", os.defpath)
    return [os.path.join(folder or ".", program) for folder in path.split(os.pathsep)]  # noqa: PTH118


def _not_started(program: str, problem: int) -> CommandNotStarted:
    if problem == errno.ENOENT:
        if "/" in program:
            return CommandNotStarted(f"there is no program {program}", 127)
        return CommandNotStarted(f"command not found: {program}", 127)
    reason = os.strerror(problem).lower()
    return CommandNotStarted(f"cannot run {program}: {reason}", 126)
