"""Redaction on the way out: secrets, and on request personal names, out of what leaves the machine.

In: texts, or records that hold texts. Out: the same with masks: `[secret-1]`, `user-1`, `host-1`,
`[email-1]`, `[address-1]`. The same value gets the same mask everywhere, numbered in order of
discovery, so that a reader can still tell two of them apart and two packages of one run are equal.
Masks that the recorder set keep their numbers.

First learn, then mask: a password that one line announces is masked on every other line too, also
URL-quoted, JSON-escaped or in base64. Masking twice changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rerail.privacy.addresses import find_addresses
from rerail.privacy.arguments import secrets_of
from rerail.privacy.known import is_worth_finding, without_padding
from rerail.privacy.masking import Masker, decoded, encoded
from rerail.privacy.names import SECRET_NAME, is_secret_value
from rerail.privacy.personal_names import PersonalNames, find_emails, find_homes, word_pattern

_RECORDED = re.compile(r"\[secret(?:-(\d+))?\]")
_SHORTEST_CUT = 6  # of a secret that a bounded text cuts off
_LONGEST_CUT = 400


class Redactor(Masker):
    def __init__(self, recorded: Mapping[int, tuple[str, str]] | None = None) -> None:
        """`recorded`: what the recorder recognised, under its numbers."""
        super().__init__()
        self.known.load(recorded or {})
        self._recorded_kinds = {number: kind for number, (_, kind) in (recorded or {}).items()}
        self.names = PersonalNames()
        self.counts: Counter[str] = Counter()  # masked places by kind
        self._addresses: dict[str, str] = {}  # address or e-mail to mask
        self._address_counts: Counter[str] = Counter()  # different ones by the form of their mask
        self._known_addresses: re.Pattern[str] | None = None
        self._beginnings: dict[str, str] = {}  # every beginning of a secret to the secret
        self._cut_endings: set[str] = set()
        self._longest_secret = 0
        self._users: re.Pattern[str] | None = None
        self._hosts: re.Pattern[str] | None = None

    # Learning

    def learn_text(self, text: str) -> None:
        self.learn_secrets(encoded(text))
        for number in _RECORDED.findall(text):  # masked already: that counts too
            self.counts[self._recorded_kinds.get(int(number or 0), "secret")] += 1
        self.names.add_texts([text])
        for match in find_addresses(text):
            self._number(match[0], "[address-{}]")

    def learn_command(self, arguments: list[str]) -> None:
        for argument, secret in zip(arguments, secrets_of(arguments), strict=True):
            if secret is not None:
                self.known.learn(argument[secret[0] : secret[1]], secret[2])
            self.learn_text(argument)

    def learn_value(self, value: Any) -> None:
        """Every text inside; an object's keys announce what their values are."""
        if isinstance(value, str):
            self.learn_text(value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, str):
                    if is_secret_value(str(key), inner):
                        self.known.learn(inner, SECRET_NAME)
                    self.learn_text(f"{key}={inner}")  # MASTER_ADDR tells of an address
                self.learn_value(inner)
        elif is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                self.learn_value(getattr(value, field.name))
        elif isinstance(value, (list, tuple)):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                self.learn_command(list(value))
            else:
                for item in value:
                    self.learn_value(item)

    def finish_learning(self) -> None:
        self._beginnings = {
            secret[:length]: secret
            for secret in self.known.values()
            if is_worth_finding(secret)
            for length in range(_SHORTEST_CUT, min(len(secret), _LONGEST_CUT))
        }
        self._cut_endings = {beginning[-_SHORTEST_CUT:] for beginning in self._beginnings}
        self._longest_secret = max(map(len, self._beginnings), default=0)
        self._users = word_pattern(self.names.users)
        self._hosts = word_pattern(self.names.hosts)
        if self._addresses:
            ordered = sorted(self._addresses, key=len, reverse=True)
            inner = "|".join(re.escape(address) for address in ordered)
            self._known_addresses = re.compile(rf"(?<![\w.:])(?:{inner})(?![\w]|[.:]\w*\d[.:])")

    # Masking

    def mask_text(self, text: str) -> str:
        return self.mask(text)

    def mask(self, text: str) -> str:
        """The text without secrets and names."""
        text = self._without_secrets(text)
        text = self._numbered(text, find_emails(text), "[email-{}]", "e-mail address")
        text = self._numbered(text, find_addresses(text), "[address-{}]", "network address")
        if self._known_addresses is not None:
            matches = self._known_addresses.finditer(text)
            text = self._numbered(text, matches, "[address-{}]", "network address")
        return self._mask_names(text)

    def _without_secrets(self, text: str) -> str:
        return self._mask_cut(decoded(self.mask_bytes(without_padding(encoded(text)))))

    def mask_at(self, value: bytes, kind: str) -> str:
        known = self.known.secret_of(value)
        self.counts[self.known.kinds[known] if known is not None else kind] += 1
        return super().mask_at(value, kind)

    def mask_command(self, arguments: Any) -> list[str]:
        for secret in secrets_of(arguments):
            if secret is not None:
                self.counts[secret[2]] += 1
        return super().mask_command(arguments)

    def _named(self, name: str, value: str) -> str:
        if is_secret_value(name, value):
            self.counts[SECRET_NAME] += 1
        return super()._named(name, value)

    def _mask_cut(self, text: str) -> str:
        """A bounded text may end in the middle of a secret: its beginning must not stay."""
        if not self._beginnings:
            return text
        pieces = text.split("…")
        for i, piece in enumerate(pieces):
            bare = piece.rstrip()
            if bare[-_SHORTEST_CUT:] not in self._cut_endings:
                continue
            for length in range(min(self._longest_secret, len(bare)), _SHORTEST_CUT - 1, -1):
                secret = self._beginnings.get(bare[-length:])
                if secret is not None:
                    kind = self.known.kinds[secret]
                    self.counts[kind] += 1
                    pieces[i] = (
                        bare[:-length] + self.known.mask_of(secret, kind) + piece[len(bare) :]
                    )
                    break
        return "…".join(pieces)

    def _number(self, value: str, form: str) -> str:
        if value not in self._addresses:
            self._address_counts[form] += 1
            self._addresses[value] = form.format(self._address_counts[form])
        return self._addresses[value]

    def _numbered(self, text: str, matches: Iterable[re.Match[str]], form: str, kind: str) -> str:
        for match in reversed(list(matches)):
            self.counts[kind] += 1
            text = text[: match.start()] + self._number(match[0], form) + text[match.end() :]
        return text

    def _mask_names(self, text: str) -> str:
        for home in self.names.homes:
            if home in text:
                self.counts["home folder"] += text.count(home)
                text = text.replace(home, f"/home/{self._user_mask(home.rpartition('/')[2])}")
        for match in reversed(list(find_homes(text))):
            mask = self._user_mask(match["user"])
            if mask != match["user"]:
                self.counts["home folder"] += 1
                text = text[: match.start("user")] + mask + text[match.end("user") :]
        if self._users is not None:
            text = self._users.sub(self._counted("user name", self._user_mask), text)
        if self._hosts is not None:
            text = self._hosts.sub(self._counted("host name", self._host_mask), text)
        return text

    def _counted(self, kind: str, mask: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
        def masked(match: re.Match[str]) -> str:
            self.counts[kind] += 1
            return mask(match[0])

        return masked

    def _user_mask(self, name: str) -> str:
        number = self.names.users.get(name.lower())
        return name if number is None else f"user-{number}"

    def _host_mask(self, name: str) -> str:
        return f"host-{self.names.hosts[name.lower()]}"


class SecretRedactor(Redactor):
    """For a page that stays here: secrets go, names of people, machines and addresses stay."""

    def learn_text(self, text: str) -> None:
        self.learn_secrets(encoded(text))

    def mask(self, text: str) -> str:
        return self._without_secrets(text)
