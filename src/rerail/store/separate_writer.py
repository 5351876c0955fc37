"""A run's writer whose work is done by another process, so that no caller waits for the disk.

In: the writer of a run. Out: one with the same methods, each of which passes the call on to the
writing process. Promises: while the disk answers, a killed recorder loses nothing of what it was
given; a disk that does not answer costs a caller PATIENCE_SECONDS once, then what comes is held in
memory up to HELD_BYTES, and the record says how much output was lost; forked tasks may call too;
without the writing process, or once it was killed, the record is written by this process.
"""

from __future__ import annotations

import dataclasses
import errno
import marshal
import math
import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from rerail.errors import RerailError
from rerail.platform import proc_files
from rerail.platform.descriptors import close_all_but, point_at_null
from rerail.platform.own_helper import stand_apart
from rerail.platform.procfs import StatFields
from rerail.records import Outcome
from rerail.store.codec import encode
from rerail.store.flood import Chunk, Flood
from rerail.store.newlines import count_newlines
from rerail.store.output_log import FLOOD_HELD_BYTES, HEAD_BYTES
from rerail.store.writer import RunWriter
from rerail.store.writing_process import DONE, IN_A_FILE, MESSAGE_BYTES, Call, Started, start

PATIENCE_SECONDS = 0.02
BUSY_SECONDS = 2.0  # on a machine with more to do than processors
BUSY_TICKS = 10
# Waiting until output is stored may take this much, so that slow masking does not slow the command.
WAIT_SECONDS, WAIT_SHARE = 0.5, 0.02
AT_ONCE_BYTES = 16 * 1024
GATHERED_BYTES = 64 * 1024
HELD_BYTES = 32 * 1024 * 1024
TASK_SECONDS = 60.0
LET_GO_SECONDS = 1.0
END_SECONDS = 10.0  # without any work done, at the end of a run
LEFT_BEHIND_SECONDS = 600.0
DOES_NOT_ANSWER = "nothing could be written for a while; its disk may hang"


class _Message(NamedTuple):
    data: bytes
    method: str
    is_to_be_told: bool


def separate(writer: RunWriter) -> RunWriter:
    """Return a writer that another process works for, or this one where there can be none."""
    if sys.platform != "linux":
        return writer
    try:
        return SeparateWriter(writer, start(writer))
    except OSError as error:
        writer.event("missing", what="writing process", why=str(error))
        return writer


class SeparateWriter(RunWriter):
    def __init__(self, writer: RunWriter, started: Started) -> None:
        # Without the initialiser of RunWriter: the files are those of the other process.
        self.path, self.agent_dir = writer.path, writer.agent_dir
        self._memory_lock = -1
        self.masker = writer.masker
        self.pid, self._link = started
        self._info = writer.info
        self._lock = writer.lock_descriptor
        self._missing = writer.missing
        writer.close_files()
        self._flood = Flood(FLOOD_HELD_BYTES)
        self._printed_bytes = 0
        self._batch: list[tuple[Any, ...]] | None = None
        self._held: deque[_Message] = deque()
        self._held_bytes = 0
        self._skipped = (0, 0)  # bytes and newlines of output that could not be held
        self._is_patient = True
        self._user_pid = os.getpid()
        self._room_seconds = PATIENCE_SECONDS
        self._waited_seconds = 0.0
        self._gathered: Chunk | None = None
        self._untold = 0  # calls that are to be answered, and are not yet
        self._is_closed = False
        self._alone: RunWriter | None = None  # once the writing process was killed
        self._has_answered = True

    @property
    def has_answered(self) -> bool:
        return self._has_answered

    @property
    def missing(self) -> list[tuple[str, str]]:
        return self._alone.missing if self._alone is not None else self._missing

    def event(self, kind: str, *, t_seconds: float | None = None, **data: Any) -> None:
        t = self.now() if t_seconds is None else t_seconds
        self._call("event", kind, t_seconds=t, **data)

    @contextmanager
    def together(self) -> Iterator[None]:
        if self._batch is not None:
            yield
            return
        self._batch = []
        try:
            yield
        finally:
            calls, self._batch = self._batch, None
            if calls:
                self._call("together", calls)

    def output(self, data: bytes, stream: str, t_seconds: float) -> None:
        is_flood = self._flood.is_there(len(data), t_seconds)
        if is_flood and self._printed_bytes >= HEAD_BYTES:
            for chunk in self._flood.hold(Chunk(data, stream, t_seconds)):
                self._skip(len(chunk.data), count_newlines(chunk.data))
        else:
            self._settle()
            self._pass_on(Chunk(data, stream, t_seconds))
        self._printed_bytes += len(data)

    def look_at_output(self) -> None:
        if self._flood.is_due(self.now()):
            self._settle()
        self._send_gathered()
        self._send_held()

    def append(self, name: str, value: Any) -> bool:
        self._call("append", name, value if isinstance(value, dict) else encode(value))
        return True

    def write_json(self, name: str, value: Any) -> bool:
        self._call("write_json", name, encode(value))
        return True

    def update_info(self, **fields: Any) -> None:
        self._info = dataclasses.replace(self._info, **fields)
        self._call("update_info", **fields)

    def bring_agent_files_home(self, gone: Sequence[str] = ()) -> None:
        self._call("bring_agent_files_home", list(gone))

    def mask_agent_files(self) -> None:
        self._call("mask_agent_files")

    @property
    def vitals(self) -> _SeparateVitals:  # type: ignore[override]
        return _SeparateVitals(self)

    def finish(self, outcome: Outcome, elapsed_seconds: float) -> None:
        self._settle()
        ending = (encode(outcome), elapsed_seconds)
        self._call("finish", *ending)
        answer = self._wait_for_answer(END_SECONDS) if self._alone is None else None
        if answer:
            self._missing = [(what, why) for what, why in marshal.loads(answer)]
        elif answer == b"":
            self._try(Call("finish", ending, {}).to_bytes())  # it was killed meanwhile
        elif self._alone is None:
            self._has_answered = False
            self._missing = [*self._missing, ("the end of the run", DOES_NOT_ANSWER)]
            self._leave_rest_behind()
        self.close()
        if self._has_answered:
            self._reap()

    def let_go(self) -> None:
        """For the guardian: have the writing process leave the folder, so that it can go on.

        Nobody passes output on meanwhile, so it waits a short time. TimeoutError: the folder is
        still written, or its disk does not answer.
        """
        self._room_seconds = LET_GO_SECONDS
        self._call("let_go")
        until = time.monotonic() + 3 * LET_GO_SECONDS
        if self._wait_for_answer(LET_GO_SECONDS, until) is None:
            raise TimeoutError(DOES_NOT_ANSWER)
        self.close()

    def close(self) -> None:
        self._is_closed = True
        self._link.close()
        for descriptor in (self._lock, self._memory_lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._lock = self._memory_lock = -1

    def _settle(self) -> None:
        for chunk in self._flood.take():
            self._pass_on(chunk)

    def _pass_on(self, chunk: Chunk) -> None:
        """What is on the terminal is on file, unless that would slow the command."""
        may_wait = self._waited_seconds < WAIT_SECONDS + WAIT_SHARE * chunk.t_seconds
        may_wait = may_wait and self._is_patient and self._alone is None
        if not may_wait or len(chunk.data) > AT_ONCE_BYTES:
            return self._gather(chunk)
        self._send_gathered()
        self._call("output", *chunk, is_to_be_told=True)
        began = time.monotonic()
        self._wait_until_told()
        self._waited_seconds += time.monotonic() - began
        self._is_patient = not self._untold
        return None

    def _gather(self, chunk: Chunk) -> None:
        """Send small chunks together: each one costs the other process a search of its own."""
        before = self._gathered
        if before is not None and before.stream == chunk.stream:
            chunk = Chunk(before.data + chunk.data, chunk.stream, before.t_seconds)
        else:
            self._send_gathered()
        self._gathered = chunk
        if len(chunk.data) >= GATHERED_BYTES:
            self._send_gathered()

    def _send_gathered(self) -> None:
        if self._gathered is None:
            return
        (data, stream, t_seconds), self._gathered = self._gathered, None
        for at in range(0, len(data), MESSAGE_BYTES):
            self._call("output", data[at : at + MESSAGE_BYTES], stream, t_seconds)

    def _skip(self, byte_count: int, newline_count: int) -> None:
        self._skipped = (self._skipped[0] + byte_count, self._skipped[1] + newline_count)

    def _call(
        self, method: str, *arguments: Any, is_to_be_told: bool = False, **named: Any
    ) -> None:
        if self._user_pid != os.getpid():
            self._leave_queue_to_parent()
        if method != "output":
            self._send_gathered()
        if self._alone is not None:
            self._send_held()
            return self._call_alone(method, arguments, named)
        call = Call(method, arguments, named, is_to_be_told)
        self._untold += is_to_be_told
        if self._batch is not None and method == "event":
            self._batch.append(tuple(call))
            return None
        if any(self._skipped):
            skipped, self._skipped = self._skipped, (0, 0)
            skip = Call("skip_output", skipped, {})
            self._send(_Message(skip.to_bytes(), "skip_output", is_to_be_told=False))
        try:
            data = call.to_bytes()
        except ValueError:  # a record, or a number of a kind of its own
            data = Call(method, encode(arguments), encode(named), is_to_be_told).to_bytes()
        self._send(_Message(data, method, is_to_be_told))
        return None

    def _leave_queue_to_parent(self) -> None:
        """In a forked task: what the recorder holds is sent by the recorder alone."""
        self._user_pid = os.getpid()
        self._held, self._held_bytes, self._skipped = deque(), 0, (0, 0)
        self._batch, self._gathered, self._untold, self._is_patient = None, None, 0, True
        self._room_seconds = TASK_SECONDS  # it has a deadline of its own, and nobody waits for it
        self._flood.take()

    def _send(self, message: _Message) -> None:
        """Send it behind what is held; hold it if the other process cannot take it."""
        if not self._send_held() or not self._try(message.data):
            if self._is_patient:
                poll = select.poll()
                poll.register(self._link, select.POLLOUT)
                poll.poll(self._room_seconds * 1000)
            if not self._send_held() or not self._try(message.data):
                self._is_patient = False
                self._hold(message)

    def _wait_until_told(self) -> None:
        """Wait PATIENCE_SECONDS; longer on a busy machine, where the other waits for its turn."""
        before, until = self._stat(), time.monotonic() + BUSY_SECONDS
        while self._listen(PATIENCE_SECONDS) is None and self._untold:
            now = self._stat()
            if before is None or now is None or now.state != "R" or time.monotonic() > until:
                return
            if now.cpu_ticks - before.cpu_ticks > BUSY_TICKS:
                return  # it had its turn: what it has to do is long

    def _let_it_catch_up(self) -> None:
        """Slow the command down rather than lose output, but only while the other works."""
        poll = select.poll()
        poll.register(self._link, select.POLLOUT)
        until = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < until and not self._send_held():
            stat = self._stat()
            if stat is None or stat.state != "R":
                return
            poll.poll(PATIENCE_SECONDS * 1000)

    def _stat(self) -> StatFields | None:
        return proc_files.read_stat(self.pid)

    def _hold(self, message: _Message) -> None:
        self._held.append(message)
        self._held_bytes += len(message.data)
        if self._held_bytes > HELD_BYTES // 2:
            self._let_it_catch_up()
        if self._held_bytes > HELD_BYTES:
            self._drop_oldest_output()

    def _drop_oldest_output(self) -> None:
        """Make room: the newest output and everything else are worth more."""
        kept: deque[_Message] = deque()
        left = self._held_bytes
        dropped = (0, 0)
        for message in self._held:
            if message.method == "output" and left > HELD_BYTES // 2:
                left -= len(message.data)
                self._untold -= message.is_to_be_told
                output: bytes = marshal.loads(message.data)[1][0]
                dropped = (dropped[0] + len(output), dropped[1] + count_newlines(output))
                continue
            if message.method == "output" and any(dropped):
                skip = Call("skip_output", dropped, {}).to_bytes()
                kept.append(_Message(skip, "skip_output", is_to_be_told=False))
                dropped = (0, 0)
            kept.append(message)
        self._skip(*dropped)
        if left > HELD_BYTES:  # so much that is no output: it is said that events are missing
            kept = deque(each for each in kept if each.method in ("output", "skip_output"))
            why = Call("event", ("missing",), {"what": "events", "why": DOES_NOT_ANSWER}).to_bytes()
            kept.append(_Message(why, "event", is_to_be_told=False))
        self._held, self._held_bytes = kept, sum(len(message.data) for message in kept)

    def _send_held(self) -> bool:
        """Send what is held, as far as it goes; True if nothing is held any more."""
        is_own = self._user_pid == self._info.recorder_pid
        if is_own and self._untold and self._alone is None:
            self._listen(0.0)  # unread answers would stop the other process
        while self._held:
            message = self._held.popleft()
            if not self._try(message.data):
                self._held.appendleft(message)
                return False
            self._held_bytes -= len(message.data)
        self._is_patient = self._is_patient or not self._untold
        return True

    def _listen(self, seconds: float) -> bytes | None:
        """Take note of what was done; an answer of another kind is returned, empty at the end."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        while poll.poll(seconds * 1000):
            try:
                answer = self._link.recv(MESSAGE_BYTES)
            except BlockingIOError:
                return None  # a forked task has read it
            except OSError:
                answer = b""
            if answer != DONE:
                self._untold = 0
                return answer
            self._untold -= 1
            seconds = 0.0
        return None

    def _try(self, data: bytes) -> bool:
        """Return whether there is no need to try again; False: there is no room for it now."""
        if self._is_closed:
            return True
        if self._alone is None:
            try:
                if len(data) <= MESSAGE_BYTES + 1024:
                    self._link.send(data)
                else:
                    self._send_in_a_file(data)
                return True
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                    return False  # no room, or no memory for it
                self._go_on_alone()
        if self._alone is not None:
            self._call_alone(*marshal.loads(data)[:3])
        return True

    def _send_in_a_file(self, data: bytes) -> None:
        import socket

        try:
            descriptor = os.memfd_create("rerail-message", os.MFD_CLOEXEC)
        except OSError as error:  # no descriptor is left: nothing that large can be passed on
            self.event("missing", what="a large part of the record", why=str(error))
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError as error:
            os.close(descriptor)
            self.event("missing", what="a large part of the record", why=str(error))
            return
        try:
            socket.send_fds(self._link, [IN_A_FILE], [descriptor])
        finally:
            os.close(descriptor)

    # -- the writing process is gone, or does not answer --------------------------------------

    def _go_on_alone(self) -> None:
        """The writing process was killed: from now on this process writes, in its place."""
        if self._user_pid != self._info.recorder_pid:
            return  # a task or the guardian: the recorder goes on
        self._untold = 0
        try:
            self._alone = RunWriter.adopt(self.path)
        except RerailError:  # the folder is gone
            self._is_closed = True
            return
        why = "it was killed; the recorder writes the rest itself"
        self._alone.event("missing", what="writing process", why=why)

    def _call_alone(self, method: str, arguments: Any, named: dict[str, Any]) -> None:
        assert self._alone is not None
        if method == "together":
            for inner, its_arguments, its_named in arguments[0]:
                self._call_alone(inner, its_arguments, its_named)
            return
        if method == "finish":
            self._alone.finish(Outcome(**arguments[0]), arguments[1])
            return
        owner, _, name = method.rpartition(".")
        getattr(self._alone.vitals if owner == "vitals" else self._alone, name)(*arguments, **named)

    def _wait_for_answer(self, idle_seconds: float, until: float = math.inf) -> bytes | None:
        """Wait while the other process works. Empty: it has ended. None: it does not answer."""
        worked, at = self._work_done(), time.monotonic()
        while time.monotonic() < min(at + idle_seconds, until):
            self._send_held()
            if self._alone is not None:
                return None
            if (answer := self._listen(PATIENCE_SECONDS)) is not None:
                return answer
            if (now_worked := self._work_done()) != worked:
                worked, at = now_worked, time.monotonic()
        return None

    def _work_done(self) -> tuple[int, object]:
        stat = self._stat()
        return len(self._held), stat.cpu_ticks if stat is not None else None

    def _leave_rest_behind(self) -> None:
        """Have a process of its own pass the rest on, once the disk answers; we do not wait."""
        if not self._held:
            return
        try:
            if os.fork():
                return
        except OSError:
            return  # no more processes: the rest is lost
        try:
            close_all_but([0, 1, 2, self._link.fileno(), self._lock])
            for descriptor in range(3):
                point_at_null(descriptor)
            stand_apart("rerail-rest")
            deadline = time.monotonic() + LEFT_BEHIND_SECONDS
            while time.monotonic() < deadline:
                # It stays for the answers too: the other process could not send them otherwise.
                if (self._send_held() and not self._untold) or self._listen(0.1) is not None:
                    break
        finally:
            os._exit(0)

    def _reap(self) -> None:
        """It has ended, or does so at once, since nobody can call it any more."""
        until = time.monotonic() + LET_GO_SECONDS
        with suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
                time.sleep(0.001)


class _SeparateVitals:
    """The vitals files of a `SeparateWriter`."""

    def __init__(self, writer: SeparateWriter) -> None:
        self._writer = writer

    def write(self, name: str, line: str, t_seconds: float) -> None:
        self._writer._call("vitals.write", name, line, t_seconds)

    def rotate(self, name: str, new_name: str, t_seconds: float) -> None:
        self._writer._call("vitals.rotate", name, new_name, t_seconds)

    def close(self) -> None:
        self._writer._call("vitals.close")
