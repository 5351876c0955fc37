"""Masking on the way in: what the recorder writes down holds no secret that can be recognised.

In: the command, the environment, texts and records of a run. Out: the same with `[secret-1]` in
place of each secret; the same value has the same mask everywhere. Promises: every name, number and
path stays; masking twice changes nothing more; a text that is surely plain costs next to nothing,
and the table is compiled only once something may hold a secret.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rerail.privacy.arguments import secrets_of
from rerail.privacy.known import UNNUMBERED, KnownSecrets
from rerail.privacy.names import NOTIFIED_ADDRESS, SECRET_NAME, is_secret_value

if TYPE_CHECKING:
    from rerail.privacy.finding import Found

T = TypeVar("T")

# What every secret has: an address, a name in front, or a stretch with digits or capitals.
_ADDRESSED = re.compile(r"://|@|hooks?[./]")
_TELLING = re.compile(
    r"(?i:token|secret|pass|pwd|pw|cred|key|auth|cookie|sas|dsn|jwt|bearer|netrc|psk|sign|hook|session"
    r"|client|connection|database|pat|curl|mysql|mariadb|login|mongo|kinit|redis|zip|sql|ldap|7z|smb)"
)
_SHORT_BYTES = 1024
_SHORT = 64
_STRETCH = re.compile(r"[A-Za-z0-9_~+-]{12,}")
_ORDINARY_STRETCH = re.compile(r"[a-z_~+-]*|[A-Z]+(?:_[A-Z]+)+")  # RLIMIT_NOFILE
# A name alone has no value behind it.
_LINKS = re.compile(r"[\s=:\"',@>]")


def is_surely_plain(text: str) -> bool:
    """Whether nothing in it can be a secret, found out without the table."""
    return _is_short_plain(text) if len(text) <= _SHORT else _is_plain(text)


def _is_plain(text: str) -> bool:
    if "\0" in text or _ADDRESSED.search(text) or (_LINKS.search(text) and _TELLING.search(text)):
        return False
    return all(_ORDINARY_STRETCH.fullmatch(stretch) for stretch in _STRETCH.findall(text))


# Of thousands of processes the same roles and names are asked for again and again.
_is_short_plain = functools.lru_cache(maxsize=512)(_is_plain)


def blank(value: Any) -> Any:
    """Every text hidden that is not surely plain: at once, without the table."""
    if isinstance(value, str):
        return value if is_surely_plain(value) else "[…]"
    if isinstance(value, dict):
        return {key: blank(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [blank(item) for item in value]
    return value


class Masker:
    def __init__(self, tell: Callable[[int, str, str], None] | None = None) -> None:
        self.known = KnownSecrets(tell)
        self._unread_environment: dict[str, str] = {}
        self._has_looked = False

    def learn_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Remember its secrets. Those by name are found now and returned, shapes when needed."""
        named = {name: value for name, value in environ.items() if is_secret_value(name, value)}
        for value in named.values():
            self.known.learn(value, SECRET_NAME)
        self._unread_environment = {
            name: value
            for name, value in environ.items()
            if name not in named and not is_surely_plain(value)
        }
        return named

    def learn_addresses(self, addresses: Iterable[str]) -> None:
        """Where notifications go: whoever knows such an address can send there too."""
        for address in addresses:
            self.known.learn(address, NOTIFIED_ADDRESS)

    def mask_text(self, text: str) -> str:
        raw = encoded(text)
        return text if self._is_plain(text, raw) else decoded(self.mask_bytes(raw))

    def _is_plain(self, text: str, raw: bytes) -> bool:
        return is_surely_plain(text) and not self.known.may_be_in(raw)

    def mask_bytes(self, text: bytes) -> bytes:
        pieces, done = [], 0
        for start, end, kind in self.places(text):
            pieces += [text[done:start], self.mask_at(text[start:end], kind).encode()]
            done = end
        return b"".join([*pieces, text[done:]]) if pieces else text

    def places(self, text: bytes) -> list[Found]:
        """Everything secret in a text: by shape, by name, and by acquaintance."""
        is_first = len(text) <= _SHORT_BYTES and not self._has_looked
        if is_first and self._is_plain(text.decode("latin-1"), text):
            return []  # most short runs end here, and never load what follows
        from rerail.privacy.finding import find_secrets, without_overlaps

        self._has_looked = True
        self._read_environment()
        return without_overlaps(text, [*find_secrets(text), *self.known.find(text)])

    def mask_at(self, value: bytes, kind: str) -> str:
        known = self.known.secret_of(value)
        if known is not None:
            return self.known.mask_of(known, kind)
        if self.known.is_full(kind):
            return UNNUMBERED
        return self.known.learn_mask(decoded(without_gaps(value)), kind)

    def mask_command(self, arguments: Sequence[str]) -> list[str]:
        """Every argument stays where it is; secrets in it do not."""
        masked = []
        for argument, secret in zip(arguments, secrets_of(arguments), strict=True):
            if secret is None:
                masked.append(self.mask_text(argument))
                continue
            start, end, kind = secret
            self.known.learn(argument[start:end], kind)
            masked.append(
                self.mask_text(argument[:start])
                + self.known.mask_of(argument[start:end], kind)
                + argument[end:]
            )
        return masked

    def mask_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment with secrets replaced; every name stays."""
        return {name: self._named(name, value) for name, value in environ.items()}

    def mask_value(self, value: T) -> T:
        """The same record, list, dictionary or text, masked all the way down."""
        return self._walk(value)  # type: ignore[no-any-return]

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask_text(value)
        if value is None or isinstance(value, (int, float)):
            return value
        if isinstance(value, dict):
            return {
                self._walk(key): self._named(key, inner)
                if isinstance(key, str) and isinstance(inner, str)
                else self._walk(inner)
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                return type(value)(self.mask_command(value))
            return type(value)(self._walk(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            changes = {f.name: self._walk(getattr(value, f.name)) for f in fields(value)}
            return replace(value, **changes)
        return value

    def _named(self, name: str, value: str) -> str:
        if is_secret_value(name, value):
            self.known.learn(value, SECRET_NAME)
            return self.known.mask_of(value, SECRET_NAME)
        return self.mask_text(value)

    def learn_secrets(self, text: bytes) -> None:
        """Remember what can be recognised in a text."""
        from rerail.privacy.finding import find_secrets

        for start, end, kind in find_secrets(text):
            self.known.learn(decoded(without_gaps(text[start:end])).strip(), kind)

    def _read_environment(self) -> None:
        unread, self._unread_environment = self._unread_environment, {}
        for value in unread.values():
            self.learn_secrets(encoded(value))


def without_gaps(value: bytes) -> bytes:
    """Return a value without the colours or zero bytes (of UTF-16) between its characters."""
    if b"\x1b" not in value and b"\0" not in value:
        return value
    from rerail.privacy.finding import GAPS

    return GAPS.sub(b"", value)


def encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair that no file name has
        return text.encode("utf-8", "surrogatepass")


def decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return text.decode("utf-8", "surrogateescape")
