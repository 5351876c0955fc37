"""One message to one receiver: by webhook, by a service of Apprise's, by mail, by a command.

In: a receiver and a message. Out: None once it was taken, else why not. Promises: a reason is in
our own words, never in those of a server, a library or a command, which may repeat an address or a
password; redirects are not followed; of an answer at most MOST_ANSWER_BYTES are read. Whoever calls
this bounds its time and memory: it runs in a process of its own (`sender`).
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from urllib.parse import unquote, urlsplit

from rerail.notify.message import Message
from rerail.notify.receivers import VARIABLE, Receiver
from rerail.platform.http_client import client_without_redirects, is_loopback

SECONDS = 10.0  # for one receiver, from the first packet to the last
MOST_ANSWER_BYTES = 64 << 10
_SENDMAIL_PLACES = ("/usr/sbin", "/usr/lib", "/sbin")
_STATUS = re.compile(r"\berror[ =:]+([1-5]\d\d)\b")


def deliver(receiver: Receiver, message: Message) -> str | None:
    """None: taken. Otherwise why not, in a few words."""
    try:
        if receiver.kind == "webhook":
            return _post(receiver.text, message)
        if receiver.kind == "service":
            return _through_apprise(receiver.text, message)
        if receiver.kind == "mail":
            return _mail(receiver.text, message)
        return _run(receiver.text, message)
    except MemoryError:
        return "its answer is too large"
    except Exception as error:
        return f"it failed ({type(error).__name__})"


def _post(url: str, message: Message) -> str | None:
    body = json.dumps(message.to_json()).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "rerail"}
    parts = urlsplit(url)
    if parts.username is not None:  # urllib would take it for a part of the host's name
        import base64

        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(url, body, headers)
    client = client_without_redirects(is_here=is_loopback(parts.hostname or ""))
    try:
        with client.open(request, timeout=SECONDS) as response:
            response.read(MOST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        error.close()
        return _refusal(error.code)
    except urllib.error.URLError as error:
        return _unreachable(error.reason)
    except (OSError, http.client.HTTPException) as error:
        return _unreachable(error)
    return None


def _refusal(status: int) -> str:
    if 300 <= status < 400:
        return f"it sends us to another address (status {status}), which is not followed"
    return f"it answers with status {status}"


def _unreachable(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return _too_late()
    if isinstance(reason, ssl.SSLError):
        return "its certificate is not accepted, or it does not speak TLS"
    errno = getattr(reason, "errno", None)
    why = os.strerror(errno).lower() if errno and errno > 0 else type(reason).__name__
    return f"it cannot be reached ({why})"


def _too_late() -> str:
    return f"no answer within {SECONDS:g} s"


def _through_apprise(url: str, message: Message) -> str | None:
    import apprise  # the extra `notify`: whoever asks has looked that it is there

    problems = _Problems()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [problems], False
    asset = apprise.AppriseAsset(
        app_id="rerail",
        app_desc="rerail",
        app_url="",
        http_redirects=False,
        image_url_mask="",  # no picture from a server that nobody named
        image_url_logo="",
        async_mode=False,
        storage_mode="memory",
    )
    service = apprise.Apprise(asset=asset)
    if not service.add(url):
        return "Apprise does not know such a URL"
    kinds = {"death": "failure", "stall": "warning", "proof": "success"}
    title, body = message.headline, message.body
    if urlsplit(url).scheme.lower().startswith("mailto"):
        body = message.text  # a subject is no part of what is read
    elif not body:
        title, body = "rerail", message.headline
    is_taken = service.notify(
        title=title,
        body=body,
        notify_type=kinds.get(message.event, "info"),
        body_format="text",
    )
    return None if is_taken else problems.in_words()


class _Problems(logging.Handler):
    """What Apprise logs while it sends: read for the status in it, and shown to nobody."""

    def __init__(self) -> None:
        super().__init__()
        self._status: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        found = _STATUS.search(record.getMessage())
        if found and self._status is None:
            self._status = int(found[1])

    def in_words(self) -> str:
        if self._status is None:
            return "it cannot be reached, or refuses it"
        return _refusal(self._status)


def _mail(text: str, message: Message) -> str | None:
    """By the machine's own sendmail; other servers are reached as mailto://… through Apprise."""
    from email.message import EmailMessage

    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SENDMAIL_PLACES])
    program = shutil.which("sendmail", path=path)
    if program is None:
        return "there is no sendmail on this machine: mailto://… goes to a mail server"
    mail = EmailMessage()
    mail["To"] = unquote(text.partition(":")[2].partition("?")[0])
    mail["Subject"] = message.headline
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text + "\n")
    return _status_of([program, "-i", "-t"], mail.as_bytes(), dict(os.environ))


def _run(command: str, message: Message) -> str | None:
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environ |= message.variables()
    return _status_of(["/bin/sh", "-c", command], f"{message.text}\n".encode(), environ)


def _status_of(words: list[str], text: bytes, environ: dict[str, str]) -> str | None:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=environ
    )
    process.communicate(text)  # one that does not read it is no failure
    status = process.returncode
    if status == 0:
        return None
    return f"killed by signal {-status}" if status < 0 else f"it ended with status {status}"
