"""Who is told: the URLs and commands behind `--notify` and RERAIL_NOTIFY.

In: texts as they were typed. Out: a `Receiver` each, with a name that may be shown. Promises: the
name holds nothing of what makes an address secret (a webhook's path, a topic, a login); what is
known to be unusable before anything is sent is said then; nothing is connected to, and no service's
code is imported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from rerail.platform.http_client import is_loopback

VARIABLE = "RERAIL_NOTIFY"
EXTRA = "pip install 'rerail[notify]'"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_MAIL = re.compile(r"mailto:[^/\s@][^\s@]*@[^\s@]+")
# Addresses that these services give out themselves; each wants a format of its own.
_SERVICE_HOSTS = (
    *("hooks.slack.com", "discord.com", "discordapp.com", "ntfy.sh", "webhook.office.com"),
    *("logic.azure.com", "api.powerplatform.com"),
)
_PLAIN_LABEL = re.compile(r"[a-z-]{1,12}")  # of a host name: no random part
_SHORTEST_SECRET = 6
_LONGEST_WORD = 20

Kind = Literal["webhook", "service", "mail", "command"]


class Receiver(NamedTuple):
    text: str  # as it was typed: often a secret
    kind: Kind
    shown: str

    @property
    def secrets(self) -> list[str]:
        """What must not be written down: the whole, and those parts that are tokens."""
        if self.kind == "command":
            return [self.text]
        parts = _split(self.text)
        host = parts.hostname or ""
        pieces = [*parts.netloc.rpartition("@")[0].split(":"), *parts.path.split("/")]
        pieces += [piece.partition("=")[2] for piece in parts.query.split("&")]
        if not is_loopback(host):
            pieces += host.split(".")
        pieces += [unquote(piece) for piece in pieces]
        return [self.text, *(piece for piece in pieces if _looks_random(piece))]


def _looks_random(piece: str) -> bool:
    """A token or a topic, not a word of an address: a word would be masked all over the output."""
    has_digit = any(c.isdigit() for c in piece)
    return len(piece) >= (_SHORTEST_SECRET if has_digit else _LONGEST_WORD)


def read_receivers(typed: Sequence[str], environ: Mapping[str, str]) -> list[Receiver]:
    """Those that were typed, or else those of the variable: one in a line, or URLs with spaces."""
    texts = list(typed) or _of_variable(environ.get(VARIABLE, ""))
    different = dict.fromkeys(text.strip() for text in texts if text.strip())
    return [_receiver(text) for text in different]


def _of_variable(value: str) -> list[str]:
    texts = []
    for line in value.splitlines():
        words = line.split()
        texts += words if all(is_address(word) for word in words) else [line]
    return texts


def is_address(text: str) -> bool:
    """A URL, and no command."""
    return bool(_URL.match(text) or _MAIL.fullmatch(text)) and len(text.split()) == 1


def _receiver(text: str) -> Receiver:
    if not is_address(text):
        return Receiver(text, "command", f"the command {_program(text)}")
    if _MAIL.fullmatch(text):
        return Receiver(text, "mail", "mailto:…")
    parts = _split(text)
    host = (parts.hostname or "").lower()
    if parts.scheme.lower() not in ("http", "https"):
        # What stands in the place of the host is a token or a topic for many of them.
        return Receiver(text, "service", f"{parts.scheme.lower()}://…")
    is_service = any(host == known or host.endswith(f".{known}") for known in _SERVICE_HOSTS)
    shown = f"{parts.scheme.lower()}://{_shown_host(host)}/…"
    return Receiver(text, "service" if is_service else "webhook", shown)


def why_unusable(receiver: Receiver) -> str | None:
    """What can be known of it before the run: None if nothing speaks against it."""
    if receiver.kind == "service" and find_spec("apprise") is None:
        return f"it needs Apprise: {EXTRA}"
    if receiver.kind != "webhook":
        return None
    parts = _split(receiver.text)
    if not parts.hostname:
        return "it is no URL that can be sent to"
    if parts.scheme.lower() == "http" and not is_loopback(parts.hostname):
        return "plain http to another machine can be read on the way: use https"
    return None


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port, parts.hostname
        return parts
    except ValueError:  # a port that is no number, a torn IPv6 address
        return SplitResult(text.partition(":")[0], "", "", "", "")


def _shown_host(host: str) -> str:
    if is_loopback(host) or not re.search("[a-z]", host):
        return host
    labels = host.split(".")
    shown = [label if _PLAIN_LABEL.fullmatch(label) else "…" for label in labels[:-2]]
    return ".".join([*shown, *labels[-2:]])


def _program(text: str) -> str:
    """The name of the program alone: its arguments and variables may hold a password."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    program = next((word for word in words if "=" not in word), "")
    name = "" if ":" in program else program.rpartition("/")[2]  # a URL with a space in it
    return name if re.fullmatch(r"[\w.+-]{1,40}", name) else "of --notify"
