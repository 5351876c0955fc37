"""The process that sends: `own_process("rerail.notify.sender")`, once for each message.

In: on standard input, what happened and who is to be told. Out: a `notified` event in the run's
record for every receiver, and a line of JSON each on standard output, for whoever still listens.
Promises: each receiver has a child of its own, with a deadline and little memory, so that none can
hold up another; all is over after MOST_SECONDS; what goes wrong is written down and hurts nobody.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rerail.notify.composing import compose
from rerail.notify.delivery import SECONDS, deliver
from rerail.notify.message import Message
from rerail.notify.receivers import Receiver, read_receivers, why_unusable
from rerail.platform.forked_task import ForkedTask
from rerail.platform.own_process import settle_in, tell_whoever_waits
from rerail.store import add_event

MOST_SECONDS = 40  # to read and explain a run that nobody has explained, and to send it
_MOST_MEMORY_BYTES = 512 << 20  # of a child that reads what a server answers
_MOST_REASON_BYTES = 1000
_POLL_SECONDS = 0.01


def main() -> int:
    asked = settle_in(MOST_SECONDS)
    receivers = read_receivers(asked["receivers"], {})
    try:
        secrets = [secret for receiver in receivers for secret in receiver.secrets]
        message = compose(asked, secrets)
    except Exception as error:
        for receiver in receivers:
            why = f"the message could not be made ({type(error).__name__})"
            _conclude(asked, receiver, None, why, 0.0)
        return 1
    _send_to_all(asked, receivers, message)
    return 0


def _send_to_all(asked: dict[str, Any], receivers: list[Receiver], message: Message) -> None:
    under_way = []
    for receiver in receivers:
        if why := why_unusable(receiver):
            _conclude(asked, receiver, message, why, 0.0)
        else:
            under_way.append(_Sending(receiver, message))
    while under_way:
        for each in [each for each in under_way if each.task.is_over()]:
            under_way.remove(each)
            _conclude(asked, each.receiver, message, each.why_not(), each.seconds)
        time.sleep(_POLL_SECONDS)


class _Sending:
    """One receiver, told by a child."""

    def __init__(self, receiver: Receiver, message: Message) -> None:
        self.receiver = receiver
        self._began = time.monotonic()
        self._read_end, write_end = os.pipe()

        def send() -> None:
            if receiver.kind in ("webhook", "service"):
                _bound_memory()
            why = deliver(receiver, message)
            os.write(write_end, (why or "").encode()[:_MOST_REASON_BYTES] + b"\n")

        self.task = ForkedTask.start("notify", send, SECONDS)
        os.close(write_end)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def why_not(self) -> str | None:
        """None: it was taken."""
        os.set_blocking(self._read_end, False)
        try:
            said = os.read(self._read_end, _MOST_REASON_BYTES + 1)
        except BlockingIOError:  # a program that it started still holds the other end
            said = b""
        os.close(self._read_end)
        if said:
            return said.decode().strip() or None
        is_late = self.seconds >= SECONDS
        return f"no answer within {SECONDS:g} s" if is_late else "its answer could not be read"


def _bound_memory() -> None:
    import resource

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))


def _conclude(
    asked: dict[str, Any],
    receiver: Receiver,
    message: Message | None,
    why_not: str | None,
    seconds: float,
) -> None:
    """Into the record, and to whoever waits."""
    outcome: dict[str, Any] = {"to": receiver.shown, "sent": why_not is None}
    if why_not is not None:
        outcome["why"] = why_not
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"event": asked["event"], **outcome, "seconds": round(seconds, 3), "at": at}
    if message is not None:
        about["text"] = message.text
    for folder in asked["keep_in"]:
        add_event(Path(folder), "notified", about)
    tell_whoever_waits(outcome)
