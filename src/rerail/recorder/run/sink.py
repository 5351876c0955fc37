"""The outer end of a stream: where the command's bytes would have gone without us.

In: one of our own standard descriptors. Out: writes that never block, and that never change what
others share: O_NONBLOCK belongs to the open file, which the user's shell shares, so the file is
opened once more where that is possible.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat

# A pipe that poll calls writable takes this much without blocking (PIPE_BUF).
SAFE_WRITE_BYTES = 4096


class Sink:
    def __init__(self, descriptor: int) -> None:
        self.outer = descriptor
        self.descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        self._is_socket = stat.S_ISSOCK(mode)
        self._always_ready = stat.S_ISREG(mode)
        self._hang_ups: select.poll | None = None
        self._is_pipe = stat.S_ISFIFO(mode)
        self._is_own = False
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            try:
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                self.descriptor = os.open(f"/proc/self/fd/{descriptor}", flags)
                self._is_own = True
            except OSError:
                pass  # another user's terminal, or no /proc: small writes after poll instead

    def can_be_spliced(self) -> bool:
        """Pipes of our own opening and plain files; the kernel declines files opened to append."""
        if self._always_ready:
            return not fcntl.fcntl(self.descriptor, fcntl.F_GETFL) & os.O_APPEND
        return self._is_own and self._is_pipe

    def write(self, data: memoryview) -> int:
        """How many bytes went out; 0 while there is no room. BrokenPipeError: nobody reads."""
        try:
            if self._is_own or self._always_ready:
                return os.write(self.descriptor, data)
            if self._is_socket:
                return _send(self.descriptor, data)
            if not self.is_ready():
                return 0
            return os.write(self.descriptor, data[:SAFE_WRITE_BYTES])
        except BlockingIOError:
            return 0

    def is_ready(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def has_lost_reader(self) -> bool:
        if self._always_ready:
            return False
        if self._hang_ups is None:
            self._hang_ups = select.poll()
            self._hang_ups.register(self.descriptor, 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in self._hang_ups.poll(0))

    def close(self) -> None:
        if self._is_own:
            os.close(self.descriptor)
            self._is_own = False
            self.descriptor = -1


def _send(descriptor: int, data: memoryview) -> int:
    import socket

    shared = socket.socket(fileno=os.dup(descriptor))
    with shared:
        return shared.send(data, socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0))
