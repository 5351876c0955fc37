"""A server that speaks the OpenAI chat completions API, and one bounded exchange with it.

In: the URL that the user typed (Ollama, vLLM, llama.cpp, a hosted one) and messages. Out: the text
of the model's answer, or `NoAnswer` with a reason. Promises: nothing is sent in plain text past
this machine unless that was asked for; redirects are not followed, so that nothing goes to a host
that was not named; at most MOST_ANSWER_BYTES of an answer are read and SECONDS waited in all; a
question is repeated once at most; a reason is in our own words, never in those of the server; the
key is neither kept nor shown.

The standard library's urllib is enough for two requests: it knows proxies and certificates, and
another dependency would be one more thing to trust with a key.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from rerail.errors import UsageError
from rerail.platform.http_client import client_without_redirects, is_loopback
from rerail.platform.os_text import is_printable, printable, printable_line

MOST_ANSWER_BYTES = 64 << 10
SECONDS = 60.0
_MOST_MODEL_NAME = 80
_COMPLETIONS = "/chat/completions"
# What servers answer that do not know `response_format` or `temperature`.
_REFUSES_OPTIONS = {400, 422, 500, 501}


class NoAnswer(Exception):
    """There is no usable answer; the message says why, in words of our own."""


@dataclass(frozen=True)
class ChatServer:
    base: str  # https://host/v1: what the paths of the API are appended to
    query: str = ""
    model: str = ""  # empty: the first that the server lists
    key: str = field(default="", repr=False)
    key_variable: str = ""
    seconds: float = SECONDS
    tell: Callable[[str], None] | None = None  # hears what is sent, before it is

    @property
    def host(self) -> str:
        return urlsplit(self.base).netloc

    @property
    def is_here(self) -> bool:
        return is_loopback(urlsplit(self.base).hostname or "")

    def announce(self, size_bytes: int, line_count: int) -> None:
        """Say what is about to be sent, and to whom."""
        place = f"{self.host} on this machine" if self.is_here else self.host
        key = f", with the key in {self.key_variable}" if self.key else ""
        if self.tell is not None:
            self.tell(
                f"asking {place}: sends {size_bytes:,} bytes (how it ended, {line_count} lines"
                f" of evidence, the catalogue's titles), secrets and names masked{key}"
            )

    def ends_at(self) -> float:
        """Until when a question that is asked now has to be answered, by the monotonic clock."""
        return time.monotonic() + self.seconds

    def model_to_ask(self, until: float) -> str:
        """The model that was named, else the first that the server lists."""
        if self.model:
            return self.model
        try:
            name = json.loads(self._exchange("/models", None, until))["data"][0]["id"]
        except (ValueError, LookupError, TypeError, RecursionError):
            name = None
        if not isinstance(name, str) or not printable(name).strip(" ?"):
            raise NoAnswer(f"{self.host} lists no models: name one with --ask-model")
        return name

    def complete(
        self, model: str, messages: list[dict[str, str]], options: dict[str, Any], until: float
    ) -> str:
        """The text that the model answers; asked once more, plainly, if it refuses the options."""
        try:
            body = self._exchange(_COMPLETIONS, request_body(model, messages, options), until)
        except _Refused as refused:
            if refused.status not in _REFUSES_OPTIONS:
                raise
            body = self._exchange(_COMPLETIONS, request_body(model, messages), until)
        return content_of(body, self.host)

    def _exchange(self, path: str, data: bytes | None, until: float) -> bytes:
        """One request and its answer, in a thread: only so is the time bounded as a whole.

        A socket's own timeout begins anew with every byte, and looking up a name has none.
        """
        outcome: list[bytes | BaseException] = []

        def exchange() -> None:
            try:
                outcome.append(self._read(path, data, until))
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=exchange, name="rerail-ask", daemon=True)
        thread.start()
        thread.join(max(0.0, until - time.monotonic()))
        if not outcome:
            raise self._too_late()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def _read(self, path: str, data: bytes | None, until: float) -> bytes:
        url = f"{self.base}{path}{self.query}"
        request = urllib.request.Request(url, data, {"Accept": "application/json"})
        request.add_header("User-Agent", "rerail")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self.key:
            request.add_unredirected_header("Authorization", f"Bearer {self.key}")
        client = client_without_redirects(is_here=self.is_here)
        try:
            with client.open(request, timeout=self.seconds) as response:
                return self._bounded(response, until)
        except urllib.error.HTTPError as error:
            error.close()
            raise self._refused(error.code) from None
        except TimeoutError:
            raise self._too_late() from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._too_late() from None
            why = getattr(error.reason, "strerror", None) or type(error.reason).__name__
            raise NoAnswer(f"{self.host} cannot be reached: {printable(str(why))}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"{self.host} broke off ({type(error).__name__})") from None

    def _bounded(self, response: Any, until: float) -> bytes:
        pieces, size = [], 0
        while piece := response.read1(1 << 14):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_ANSWER_BYTES:
                raise NoAnswer(
                    f"{self.host} answers with more than {MOST_ANSWER_BYTES >> 10} KiB"
                    " (a long list of models? name one with --ask-model)"
                )
            if time.monotonic() > until:
                raise self._too_late()
        return b"".join(pieces)

    def _too_late(self) -> NoAnswer:
        return NoAnswer(f"{self.host} has not answered within {self.seconds:g} s")

    def _refused(self, status: int) -> NoAnswer:
        if 300 <= status < 400:
            why = "sends us to another address, which is not followed: give its own URL"
        elif status in (401, 403):
            sent = f"the key in {self.key_variable}" if self.key else "a question without a key"
            why = f"refuses {sent} (status {status}): RERAIL_ASK_KEY holds the key to send"
        elif status == 404:
            why = "has no such model, or no chat completions under this URL (status 404)"
        else:
            why = f"answers with status {status}"
        return _Refused(f"{self.host} {why}", status)


def request_body(
    model: str, messages: list[dict[str, str]], options: dict[str, Any] | None = None
) -> bytes:
    """All that is sent of one question; without options, what every server understands."""
    document: dict[str, Any] = {"model": model, "messages": messages}
    if options is not None:
        document |= {**options, "stream": False}
    return json.dumps(document, ensure_ascii=False).encode()


class _Refused(NoAnswer):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def server_of(
    url: str,
    model: str | None = None,
    *,
    may_be_plain: bool = False,
    tell: Callable[[str], None] | None = None,
    environ: Mapping[str, str] | None = None,
) -> ChatServer:
    """The server of a URL, or of RERAIL_ASK if that is empty. UsageError for one not to be used."""
    environ = os.environ if environ is None else environ
    url = url or environ.get("RERAIL_ASK", "")
    how = "As in --ask http://localhost:11434, or set RERAIL_ASK and put --ask behind the files."
    if not url:
        raise UsageError("--ask needs the URL of a server, and RERAIL_ASK names none.", how)
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # a ValueError if it is no number
    except ValueError:
        is_usable = False
    if not is_usable or not is_printable(url) or " " in url:
        raise UsageError(f"--ask takes a URL, and {printable(url)[:80]!r} is none.", how)
    if parts.username is not None:
        raise UsageError(
            "the URL of --ask holds a login, which other users of this machine can see.",
            "Put the key into RERAIL_ASK_KEY.",
        )
    is_private = parts.scheme == "https" or is_loopback(parts.hostname or "")
    if not is_private and not may_be_plain:
        raise UsageError(
            f"{parts.netloc} is another machine, and plain http can be read on the way.",
            "Use https, or say --ask-insecure if the network in between is yours.",
        )
    path = parts.path.rstrip("/").removesuffix(_COMPLETIONS) or "/v1"
    key, variable = _key(environ, is_private)
    return ChatServer(
        urlunsplit((parts.scheme, parts.netloc, path, "", "")),
        f"?{parts.query}" if parts.query else "",
        model or environ.get("RERAIL_ASK_MODEL", ""),
        key,
        variable,
        tell=tell,
    )


def _key(environ: Mapping[str, str], is_private: bool) -> tuple[str, str]:
    """A key that was meant for another server is not sent where it can be read on the way."""
    for variable in ("RERAIL_ASK_KEY", *(["OPENAI_API_KEY"] if is_private else [])):
        if key := environ.get(variable, "").strip():
            if not (key.isascii() and is_printable(key)):
                raise UsageError(f"{variable} holds characters that no key has.")
            return key, variable
    return "", ""


def shown_model(name: str) -> str:
    """A model's name, which may be the server's word for it, as it can be printed."""
    return printable_line(name)[:_MOST_MODEL_NAME]


def content_of(body: bytes, host: str) -> str:
    """The answer's text; also of a server that streams although it was not asked to."""
    text = body.decode("utf-8", "replace").strip()
    try:
        if text.startswith(("data:", ":", "event:")):
            chunks = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
            found = [_piece(json.loads(chunk), "delta") for chunk in chunks if chunk != "[DONE]"]
            return "".join(found)
        return _piece(json.loads(text), "message")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NoAnswer(f"{host} does not answer as a chat completions server does") from None


def _piece(document: Any, part: str) -> str:
    choices = document["choices"]
    content = choices[0][part].get("content") if choices else ""
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError(part)
    return content
