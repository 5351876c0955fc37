"""Who may ask, and what a browser may do with the answer.

In: any request, before anything else sees it. Out: the request, or a plain refusal. Promises:
without the token nothing but a refusal is ever sent; a name in DNS that was bent to this machine
(Host), a page of another site (Origin, Sec-Fetch-Site) and every method that could change something
are refused; a body is never read. A cookie counts only under the random name of this start, since
browsers send the cookies of 127.0.0.1 to every port of it; under any other name the token comes in
the header `Authorization`, which browsers keep for one port.
docs/design/how-can-a-page-watch-a-run.md says why each is there.
"""

from __future__ import annotations

import base64
import hmac
import html
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from rerail.ui.settings import LONGEST_QUERY, UiSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
]
_NAMES = {"localhost", "127.0.0.1", "::1"}
_USER = "rerail"  # browsers want a user name beside a password; any will do
_ASK_FOR_PASSWORD = (b"www-authenticate", b'Basic realm="rerail ui", charset="UTF-8"')


class Guard:
    def __init__(self, app: App, settings: UiSettings, prepare: Callable[[], None]) -> None:
        self._app = app
        self.prepare = prepare  # reads ahead what will be asked for first
        self.when_let_in: Callable[[], None] = lambda: None  # called when a token was right
        self._settings = settings
        self._names = {*_NAMES, settings.name}
        if not settings.is_local:
            own = {settings.host, socket.gethostname(), socket.getfqdn()}
            self._names = _NAMES | {name.lower() for name in own}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
            return
        given = _token_in(scope)
        if given is not None and scope["type"] == "http" and self._is_token(given):
            self.when_let_in()
            await self._let_in(scope, headers, send)
            return
        if not self._may_enter(headers):
            more = [] if self._has_own_name(headers) else [_ASK_FOR_PASSWORD]
            await _refuse(scope, send, 401, "Open the address that `rerail ui` printed.", more)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message.get("headers", [])}
                more = [pair for pair in HEADERS if pair[0] not in said]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _refusal(
        self, scope: MutableMapping[str, Any], headers: dict[str, str]
    ) -> tuple[int, str] | None:
        """What is wrong with a request, whoever sent it."""
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            return 405, "These pages are only for reading."
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._is_own_host(headers["host"]):
            return 421, "This server does not answer to that name."
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "A request has no body here."
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_QUERY:
            return 414, "That address is too long."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers["host"]:
            return 403, "Another site may not read these pages."
        is_visit = (
            headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_visit:
            return 403, "Another site may not read these pages."
        return None

    def _is_own_host(self, host: str) -> bool:
        """A name that nobody else can make point here; beyond loopback also any plain address."""
        name, port = _name_and_port(host)
        if port != str(self._settings.port):
            return False
        if name in self._names:
            return True
        return not self._settings.is_local and _is_address(name)

    def _has_own_name(self, headers: dict[str, str]) -> bool:
        """Whether the browser was sent to the random name of this start."""
        name, _ = _name_and_port(headers["host"])
        return self._settings.is_local and name == self._settings.name

    def _may_enter(self, headers: dict[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return True
        if kind.lower() == "basic" and self._is_token(_password_in(given)):
            return True
        if not self._has_own_name(headers):
            return False  # every other server of this machine gets the cookies of 127.0.0.1
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie_name and self._is_token(value):
                return True
        return False

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, with the port: cookies are shared by all ports of a name."""
        return f"rerail-ui-{self._settings.port}"

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._settings.token.encode())

    async def _let_in(
        self, scope: MutableMapping[str, Any], headers: dict[str, str], send: Send
    ) -> None:
        """Take the token out of the address: the browser keeps it where no other server sees it.

        Under the random name it keeps a cookie. From another name of this machine it is sent to
        the random one. Beyond loopback there is no such name: it keeps the token as a password.
        """
        rest = [pair for pair in parse_qsl(scope["query_string"].decode()) if pair[0] != "token"]
        path = quote("/" + str(scope["path"]).lstrip("/"))  # two slashes would be another host
        token, port = self._settings.token, self._settings.port
        if not self._has_own_name(headers):
            place = f"{_USER}:{token}@{headers['host']}"
            if self._settings.is_local:
                place = f"{self._settings.name}:{port}"
                rest.append(("token", token))
            place = f"http://{place}{_with_query(path, rest)}"
            await _answer(send, 303, "", [(b"location", place.encode("latin-1"))])
            return
        path = _with_query(path, rest)
        cookie = f"{self.cookie_name}={token}; Path=/; HttpOnly; SameSite=Strict"
        more = [(b"set-cookie", cookie.encode("latin-1"))]
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # After a redirect that began elsewhere a strict cookie would not be sent.
            body = f'<meta http-equiv="refresh" content="0;url={html.escape(path)}">'
            await _answer(send, 200, body, [*more, (b"content-type", b"text/html; charset=utf-8")])
            return
        await _answer(send, 303, "", [*more, (b"location", path.encode())])


def _with_query(path: str, pairs: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _name_and_port(host: str) -> tuple[str, str]:
    """The two parts of the header `Host`. Browsers leave out the port 80."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "80"
    return name.strip("[]").lower(), port


def _password_in(given: str) -> str:
    """The password of `Authorization: Basic`; empty where there is none."""
    try:
        words = base64.b64decode(given.strip(), validate=True).decode()
    except ValueError:  # not base64, or not UTF-8
        return ""
    return words.partition(":")[2]


def _token_in(scope: MutableMapping[str, Any]) -> str | None:
    if b"token=" not in scope["query_string"]:
        return None
    try:
        return dict(parse_qsl(scope["query_string"].decode("ascii"))).get("token")
    except UnicodeDecodeError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return False


async def _refuse(
    scope: MutableMapping[str, Any],
    send: Send,
    status: int,
    why: str,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4000 + status % 1000, "reason": why})
        return
    # A refused connection is closed: a stranger cannot keep it.
    more = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    if status == 405:
        more.append((b"allow", b"GET, HEAD"))
    await _answer(send, status, why + "\n", [*more, *(headers or [])])


async def _answer(send: Send, status: int, text: str, more: list[tuple[bytes, bytes]]) -> None:
    body = text.encode()
    length = [(b"content-length", str(len(body)).encode())]
    await send(
        {"type": "http.response.start", "status": status, "headers": [*more, *length, *HEADERS]}
    )
    await send({"type": "http.response.body", "body": body})
