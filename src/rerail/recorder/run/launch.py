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
import stat
import struct
import termios
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rerail import bare
from rerail.errors import RerailError

# The program itself is at fault: without rerail it would not start either.
_ABOUT_PROGRAM = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM}
_ABOUT_PROGRAM |= {errno.ENOEXEC, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ETXTBSY}


class CommandNotStarted(RerailError):
    """The program is not there, or may not be run."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Launch(NamedTuple):
    """Everything that one start needs."""

    command: Sequence[str]
    environ: Mapping[str, str]
    descriptors: tuple[int, int, int]  # for stdin, stdout and stderr
    closed: frozenset[int]  # standard descriptors that were closed and shall be
    signals: bare.StartingSignals
    has_own_terminal: bool  # stdin is a pseudo-terminal: a session of its own around it
    has_own_group: bool = False  # who ends the command's process group does not end us

    def start(self) -> int:
        """Raises OSError where the command was not started and the program is not at fault."""
        environ = dict(self.environ)
        candidates = bare.candidates(self.command[0], environ)
        reading, writing = os.pipe()
        bare.hold_fire(True)  # before the fork: nobody may start it a second time
        try:
            pid = os.fork()
        except BaseException:
            bare.hold_fire(False)
            raise
        if pid == 0:
            self._become_command(candidates, environ, writing)
        os.close(writing)
        failure = os.read(reading, 4)
        os.close(reading)
        if failure:
            os.waitpid(pid, 0)
            problem = struct.unpack("=i", failure)[0]
            if problem in _ABOUT_PROGRAM:
                raise _not_started(self.command[0], problem)
            bare.hold_fire(False)
            raise OSError(abs(problem), os.strerror(abs(problem)))
        return pid

    def _become_command(self, candidates: list[str], environ: dict[str, str], report: int) -> None:
        """In the child. Nothing may return from here."""
        problem = -errno.ENOMEM  # negative: before the program was even tried
        try:
            if self.has_own_terminal:
                os.setsid()
                fcntl.ioctl(self.descriptors[0], termios.TIOCSCTTY, 0)
            elif self.has_own_group:
                os.setpgid(0, 0)
            for target, descriptor in enumerate(self.descriptors):
                if target in self.closed:
                    os.close(target)
                elif descriptor != target:
                    os.dup2(descriptor, target, inheritable=True)
            self.signals.restore()
            problem = bare.execute(candidates, list(self.command), environ)
        except OSError as error:
            problem = -(error.errno or errno.EIO)
        finally:
            os.write(report, struct.pack("=i", problem))
            os._exit(127)


def find_program(program: str, environ: Mapping[str, str]) -> None:
    """Raise CommandNotStarted at once for a program that is nowhere to be found."""
    problem = errno.ENOENT
    for path in bare.candidates(program, dict(environ)):
        try:
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
        except OSError as error:
            # A folder of PATH that cannot be searched is passed over, as a shell does.
            if "/" in program and error.errno not in (errno.ENOENT, errno.ENOTDIR):
                problem = error.errno or errno.EIO
            continue
        if not is_folder and os.access(path, os.X_OK):
            return
        problem = errno.EISDIR if is_folder and "/" in program else errno.EACCES
    raise _not_started(program, problem)


def _not_started(program: str, problem: int) -> CommandNotStarted:
    return CommandNotStarted(*bare.why_not_started(program, problem))
