"""Takes secrets and personal names out of everything that leaves the machine.

In: texts, or records that hold texts. Out: the same with masks: `[secret-1]`, `user-1`, `host-1`,
`[email-1]`, `[address-1]`. The same value gets the same mask everywhere, numbered in order of
discovery, so that a reader can still tell two of them apart and two packages of one run are equal.

First learn, then mask: a password that one line announces is masked on every other line too, also
URL-quoted, JSON-escaped or in base64. Masking twice changes nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from rerail.recorder.masking import mask_text, names_a_secret
from rerail.report.personal_names import (
    PersonalNames,
    find_addresses,
    find_emails,
    find_homes,
    word_pattern,
)
from rerail.report.secrets import find_secrets, is_secret_value

T = TypeVar("T")

# A learnt secret is masked wherever it stands, but a short or plain word would take half the
# text with it: such a value is masked only where its name announces it.
_SHORTEST_LITERAL = 6
_SHORTEST_PLAIN_WORD = 12
_SHORTEST_CUT = 6  # of a secret that a bounded text cuts off
_LONGEST_CUT = 400
_OUR_MASK = re.compile(r"\[secret-(\d+)\]")
_GUISE = re.compile("\\*\\*\\* \ue000(\\d+)\ue001")
_FLAG = re.compile(r"^-{1,2}[A-Za-z][\w.-]*$")


class Redactor:
    def __init__(self) -> None:
        self.names = PersonalNames()
        self.counts: Counter[str] = Counter()  # masked places by kind
        self._masks: dict[str, str] = {}  # secret to mask
        self._kinds: dict[str, str] = {}  # secret to kind
        self._literals: re.Pattern[str] | None = None
        self._forms: dict[str, str] = {}  # every form of a secret to the secret
        self._beginnings: dict[str, str] = {}  # every beginning of a secret to the secret
        self._cut_endings: set[str] = set()
        self._longest_secret = 0
        self._users: re.Pattern[str] | None = None
        self._hosts: re.Pattern[str] | None = None

    # Learning

    def learn_text(self, text: str) -> None:
        for secret in find_secrets(text):
            value = text[secret.start : secret.end]
            parts = value.splitlines() if secret.kind == "private key" else [value]
            for part in parts:
                self._learn_secret(part.strip(), secret.kind)
            if secret.kind == "login in a URL":
                for part in value.split(":", 1):
                    self._learn_secret(part, secret.kind)
        self.names.add_texts([text])

    def learn_command(self, arguments: Sequence[str]) -> None:
        for flag, value in pairwise(arguments):
            if _is_secret_flag(flag) and is_secret_value(flag, value):
                self._learn_secret(value, "value of a secret name")
        for argument in arguments:
            self.learn_text(argument)

    def learn_value(self, value: Any) -> None:
        """Every text inside; an object's keys announce what their values are."""
        if isinstance(value, str):
            self.learn_text(value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, str) and is_secret_value(str(key), inner):
                    self._learn_secret(inner, "value of a secret name")
                self.learn_value(inner)
        elif is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                self.learn_value(getattr(value, field.name))
        elif isinstance(value, (list, tuple)):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                self.learn_command(value)
            else:
                for item in value:
                    self.learn_value(item)

    def finish_learning(self) -> None:
        self._forms = {
            form: secret
            for secret in self._masks
            if _is_worth_finding(secret)
            for form in _forms_of(secret)
        }
        self._beginnings = {
            secret[:length]: secret
            for secret in set(self._forms.values())
            for length in range(_SHORTEST_CUT, min(len(secret), _LONGEST_CUT))
        }
        self._cut_endings = {beginning[-_SHORTEST_CUT:] for beginning in self._beginnings}
        self._longest_secret = max(map(len, self._beginnings), default=0)
        ordered = sorted(self._forms, key=len, reverse=True)
        self._literals = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._users = word_pattern(self.names.users)
        self._hosts = word_pattern(self.names.hosts)

    def _learn_secret(self, value: str, kind: str) -> str:
        if value and value not in self._masks:
            self._masks[value] = f"[secret-{len(self._masks) + 1}]"
            self._kinds[value] = kind
        return self._masks.get(value, "")

    # Masking

    def mask(self, text: str) -> str:
        """The text without secrets and names."""
        if self._literals is not None:
            text = self._literals.sub(self._literal_mask, text)
            text = self._mask_cut(text)
        for secret in reversed(find_secrets(text)):
            value = text[secret.start : secret.end]
            mask = self._learn_secret(value, secret.kind)
            self.counts[secret.kind] += 1
            text = text[: secret.start] + mask + text[secret.end :]
        # The recorder's own eyes as well: two lists of shapes see more than one.
        text, kinds = _recorders_mask(text)
        self.counts.update(
            "value of a secret name" if k.startswith("value of") else k for k in kinds
        )
        text = self._numbered(text, find_emails(text), "[email-{}]", "e-mail address")
        text = self._numbered(text, find_addresses(text), "[address-{}]", "network address")
        return self._mask_names(text)

    def mask_command(self, arguments: Sequence[str]) -> list[str]:
        """Arguments; what follows a flag with a secret's name goes whatever it looks like."""
        found = []
        previous = ""
        for argument in arguments:
            if _is_secret_flag(previous) and is_secret_value(previous, argument):
                kind = "value of a secret name"
                self.counts[kind] += 1
                found.append(self._learn_secret(argument, kind))
            else:
                found.append(self.mask(argument))
            previous = argument
        return found

    def mask_value(self, value: T) -> T:
        """The same record, list, dictionary or text, masked all the way down."""
        return self._walk(value)  # type: ignore[no-any-return]

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self._walk(key): self._walk_named(key, inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                return type(value)(self.mask_command(value))
            return type(value)(self._walk(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            changes = {f.name: self._walk(getattr(value, f.name)) for f in fields(value)}
            return replace(value, **changes)
        return value

    def _walk_named(self, key: Any, value: Any) -> Any:
        if isinstance(key, str) and isinstance(value, str) and is_secret_value(key, value):
            self.counts["value of a secret name"] += 1
            return self._learn_secret(value, "value of a secret name")
        return self._walk(value)

    def _literal_mask(self, match: re.Match[str]) -> str:
        secret = self._forms[match[0]]
        self.counts[self._kinds[secret]] += 1
        return self._masks[secret]

    def _mask_cut(self, text: str) -> str:
        """A bounded text may end in the middle of a secret: its beginning must not stay."""
        pieces = text.split("…")
        for i, piece in enumerate(pieces):
            bare = piece.rstrip()
            if bare[-_SHORTEST_CUT:] not in self._cut_endings:
                continue
            for length in range(min(self._longest_secret, len(bare)), _SHORTEST_CUT - 1, -1):
                secret = self._beginnings.get(bare[-length:])
                if secret is not None:
                    self.counts[self._kinds[secret]] += 1
                    pieces[i] = bare[:-length] + self._masks[secret] + piece[len(bare) :]
                    break
        return "…".join(pieces)

    def _numbered(self, text: str, matches: Iterable[re.Match[str]], form: str, kind: str) -> str:
        for match in reversed(list(matches)):
            known = self._masks.get(match[0])
            if known is None:
                number = sum(k == kind for k in self._kinds.values()) + 1
                known = self._masks[match[0]] = form.format(number)
                self._kinds[match[0]] = kind
            self.counts[kind] += 1
            text = text[: match.start()] + known + text[match.end() :]
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
        lowered = [other.lower() for other in self.names.users]
        return f"user-{lowered.index(name.lower()) + 1}" if name.lower() in lowered else name

    def _host_mask(self, name: str) -> str:
        return f"host-{self.names.hosts[name.lower()]}"


def _recorders_mask(text: str) -> tuple[str, list[str]]:
    """`recorder.masking.mask_text`, in a guise under which it takes our masks for its own."""
    guised = _OUR_MASK.sub("*** \ue000\\1\ue001", text.replace("\ue000", "").replace("\ue001", ""))
    masked, kinds = mask_text(guised)
    return _GUISE.sub(r"[secret-\1]", masked), kinds


def _is_secret_flag(argument: str) -> bool:
    return bool(_FLAG.match(argument)) and names_a_secret(argument.lstrip("-"))


def _is_worth_finding(secret: str) -> bool:
    if len(secret) < _SHORTEST_LITERAL:
        return False
    return not secret.isalpha() or len(secret) >= _SHORTEST_PLAIN_WORD


def _forms_of(secret: str) -> list[str]:
    raw = secret.encode("utf-8", "surrogateescape")
    encoded = base64.b64encode(raw).decode()
    forms = [
        secret,
        quote(raw, safe=""),
        quote_plus(raw),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        encoded,
        encoded.rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    ]
    return [form for form in dict.fromkeys(forms) if len(form) >= _SHORTEST_LITERAL]
