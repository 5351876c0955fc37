"""The side of whoever has something to tell: starts the sender, and waits a moment for it.

In: receivers, and for which events. Out: a process that sends (`sender`), and sentences about what
it could not send. Promises: nothing here raises; the exit status of a run waits for
PATIENCE_SECONDS at most; addresses go to the sender through a pipe, where nobody else sees them.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rerail.errors import UsageError
from rerail.notify.message import EVENTS, can_be_typed
from rerail.notify.receivers import VARIABLE, Receiver, read_receivers, why_unusable
from rerail.platform.own_process import answers_of, patience_seconds, start_own_process

MOST_STALLS = 3
MOST_OF_RANKS = 3  # a rank that is slow now and then would fill a phone
_MOST_TEXT = 4000


class Notifier:
    def __init__(self, receivers: Sequence[Receiver], events: Sequence[str] = EVENTS) -> None:
        self._receivers = list(receivers)
        self._events = frozenset(events)
        self._stalls = 0
        self._of_ranks = 0
        self._senders: list[subprocess.Popen[bytes]] = []

    @property
    def shown(self) -> list[str]:
        """Who is told, without what is secret about their addresses."""
        return [receiver.shown for receiver in self._receivers]

    @property
    def secrets(self) -> list[str]:
        """What the record must not hold, wherever the run may repeat it."""
        return [secret for receiver in self._receivers for secret in receiver.secrets]

    @property
    def pids(self) -> list[int]:
        """Processes of ours that may still be sending."""
        return [sender.pid for sender in self._senders if sender.poll() is None]

    def problems(self) -> list[str]:
        """Who cannot be told, as far as that is known before anything has happened."""
        found = [(receiver.shown, why_unusable(receiver)) for receiver in self._receivers]
        return [f"{shown} will not be notified: {why}" for shown, why in found if why]

    def wants(self, event: str) -> bool:
        return event in self._events

    def run_ended(
        self, folder: Path, home: Path, summary: str, *, is_death: bool, remark: str = ""
    ) -> list[str]:
        """Tell how a run ended, with its diagnosis; what went wrong with that, in sentences."""
        asked = {
            "what": "run",
            "event": "death" if is_death else "end",
            "folder": str(folder),
            "home": str(home),
            "summary": summary[:_MOST_TEXT],
            "remark": remark[:_MOST_TEXT],
            "keep_in": [str(folder)],
        }
        return self._tell(asked)

    def run_ended_unseen(self, folder: Path, summary: str, *, is_death: bool) -> None:
        """For the guardian, which has taken the recorder's place: nobody waits for anything."""
        event = "death" if is_death else "end"
        if self.wants(event):
            self._start(
                {
                    "what": "run",
                    "event": event,
                    "folder": str(folder),
                    "home": str(folder.parent.parent),
                    "summary": summary[:_MOST_TEXT],
                    "keep_in": [str(folder)],
                }
            )

    def stalled(
        self, folder: Path, silent_seconds: float, hung_in: str, *, ends_it: bool
    ) -> int | None:
        """Tell that a run stands still; the pid of the process that does so, if there is one.

        One that is ended for it is told of once, as a death.
        """
        self._stalls += 1
        is_told_later = ends_it and self.wants("death")
        if not self.wants("stall") or is_told_later or self._stalls > MOST_STALLS:
            return None
        asked = {
            "what": "stall",
            "event": "stall",
            "folder": str(folder),
            "silent_seconds": silent_seconds,
            "hung_in": hung_in[:_MOST_TEXT],
            "is_last": self._stalls == MOST_STALLS,
            "keep_in": [str(folder)],
        }
        sender = self._start(asked)
        return sender.pid if sender is not None else None

    def rank_holds_up(self, folder: Path, text: str) -> int | None:
        """Tell of a rank that the others wait for, as of a stall; the pid of who does so."""
        self._of_ranks += 1
        if not self.wants("stall") or self._of_ranks > MOST_OF_RANKS:
            return None
        asked = {
            "what": "rank",
            "event": "stall",
            "folder": str(folder),
            "text": text[:_MOST_TEXT],
            "is_last": self._of_ranks == MOST_OF_RANKS,
            "keep_in": [str(folder)],
        }
        sender = self._start(asked)
        return sender.pid if sender is not None else None

    def experiment_ended(
        self,
        what: str,
        headline: str,
        *,
        event: str,
        status: str,
        next_command: Sequence[str] = (),
        details: Sequence[str] = (),
        run: str | None = None,
        keep_in: Sequence[Path] = (),
    ) -> list[str]:
        """Tell the answer of an investigation, a verification or a study."""
        typed = shlex.join(next_command)
        short = shlex.join(next_command[:2])
        asked = {
            "what": what,
            "event": event,
            "headline": headline[:_MOST_TEXT],
            "status": status,
            "next": typed if can_be_typed(typed) else short,
            "short_next": short,
            "details": [detail[:_MOST_TEXT] for detail in details[:4]],
            "run": run,
            "keep_in": [str(path) for path in keep_in],
        }
        return self._tell(asked)

    def _tell(self, asked: dict[str, Any]) -> list[str]:
        if not self.wants(asked["event"]):
            return []
        sender = self._start(asked, listens=True)
        if sender is None:
            return ["the notification could not be sent: no process could be started for it"]
        answers = answers_of(sender, patience_seconds())
        said = [
            f"{each['to']} was not notified: {each['why']}" for each in answers if "why" in each
        ]
        left = len(self._receivers) - len(answers)
        if left > 0 and sender.poll() is None:
            shown = [each["to"] for each in answers]
            waiting = [name for name in self.shown if name not in shown] or self.shown
            kept = [
                f"; {Path(kept_in).name}/events.jsonl will say" for kept_in in asked["keep_in"][:1]
            ]
            said.append(f"{waiting[0]} has not answered yet{''.join(kept)}")
        elif left > 0:
            said.append("the notification could not be sent: its process failed")
        return said

    def _start(
        self, asked: dict[str, Any], *, listens: bool = False
    ) -> subprocess.Popen[bytes] | None:
        asked["receivers"] = [receiver.text for receiver in self._receivers]
        asked["host"] = platform.node() or "an unnamed host"
        environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
        sender = start_own_process("rerail.notify.sender", asked, environ, listens=listens)
        if sender is not None:
            self._senders.append(sender)
        return sender


def notifier_of(
    typed: Sequence[str], events: str | None, environ: Mapping[str, str]
) -> Notifier | None:
    """None if nobody is to be told. UsageError for events that there are not."""
    names = [name.strip() for name in (events or ",".join(EVENTS)).split(",")]
    unknown = [name for name in names if name not in EVENTS]
    if unknown:
        raise UsageError(
            f"--notify-on takes {', '.join(EVENTS)}, and {unknown[0]!r} is none of them",
            "As in: --notify-on death,stall",
        )
    if any(not text.strip() for text in typed):
        raise UsageError("--notify is empty", "Give it a URL or a command.")
    receivers = read_receivers(typed, environ)
    return Notifier(receivers, names) if receivers else None
