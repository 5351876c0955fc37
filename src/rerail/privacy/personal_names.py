"""Whose machine it was: user names, home folders and host names in a run's own records.

In: the run's information, its environment and its texts. Out: the names to mask. Names that say
nothing about a person or a place (root, ubuntu, localhost) are left as they are: masking them
would cost readability and hide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_HOME = re.compile(
    r"(?<![\w.~-])(?P<base>(?:/home|/Users|/export/home|[A-Za-z]:\\+Users))[/\\]+(?P<user>[^/\\\s:\"'<>|]+)"
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])(?!git@|hg@|svn@)[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}"
    r"(?:\.[A-Za-z0-9-]{1,63})+\b"
)

_GENERIC_USERS = frozenset(
    {"root", "user", "users", "admin", "administrator", "ubuntu", "debian", "ec2-user"}
    | {"centos", "fedora", "jovyan", "runner", "test", "tests", "train", "data"}
    | {"home", "work", "app", "docker", "python", "torch", "model", "default"}
    | {"nobody", "vagrant", "shared", "public", "guest", "build", "builder", "ci"}
    | {"conda", "me", "dev", "main", "worker", "slurm", "container", "agent"}
    | {"daemon", "mail", "games", "sys"}
)
_GENERIC_HOSTS = frozenset(["localhost", "localhost.localdomain", "host", "docker", "container"])
_SHORTEST_NAME = 3
_NUMERIC_ADDRESS = re.compile(r"[\d.]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")  # `addresses` masks these


@dataclass
class PersonalNames:
    """In order of discovery, so that the same run gives the same numbers."""

    users: dict[str, int] = field(default_factory=dict)  # as written and in lower case
    homes: list[str] = field(default_factory=list)  # folders that are homes but do not look it
    hosts: dict[str, int] = field(default_factory=dict)  # short and full names share a number
    _user_count: int = 0
    _host_count: int = 0

    def add_user(self, name: str) -> None:
        if _is_telling(name, _GENERIC_USERS) and name.lower() not in self.users:
            self._user_count += 1
            self.users[name] = self.users[name.lower()] = self._user_count

    def add_host(self, name: str) -> None:
        short = name.partition(".")[0]
        number = self.hosts.get(short.lower(), self._host_count + 1)
        for part in (name, short):
            if _is_telling(part, _GENERIC_HOSTS) and part.lower() not in self.hosts:
                self.hosts[part.lower()] = number
                self._host_count = max(self._host_count, number)

    def add_environment(self, environment: dict[str, Any]) -> None:
        for key in ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER"):
            if isinstance(environment.get(key), str):
                self.add_user(environment[key])
        for key in ("HOSTNAME", "HOST", "SLURMD_NODENAME", "COMPUTERNAME"):
            if isinstance(environment.get(key), str):
                self.add_host(environment[key])
        for key in ("MASTER_ADDR", "MASTER_HOST", "SLURM_LAUNCH_NODE_IPADDR", "RDZV_HOST"):
            host = environment.get(key)
            if isinstance(host, str) and not _NUMERIC_ADDRESS.fullmatch(host):
                self.add_host(host)
        home = environment.get("HOME")
        if isinstance(home, str):
            self._add_home(home.rstrip("/"))

    def _add_home(self, home: str) -> None:
        """A home that is not below /home or /Users: /data/people/ada."""
        is_deep = len(home) > 6 and home.count("/") >= 2
        if is_deep and _HOME.fullmatch(home) is None and home not in self.homes:
            self.homes.append(home)
            self.add_user(home.rpartition("/")[2])

    def add_texts(self, texts: Iterable[str]) -> None:
        for text in texts:
            for match in _HOME.finditer(text):
                self.add_user(match["user"])


def _is_telling(name: str, generic: frozenset[str]) -> bool:
    return len(name) >= _SHORTEST_NAME and name.lower() not in generic and not name.isdigit()


def find_homes(text: str) -> Iterable[re.Match[str]]:
    return _HOME.finditer(text)


def find_emails(text: str) -> Iterable[re.Match[str]]:
    return _EMAIL.finditer(text) if "@" in text else ()


def word_pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    """The names as words: `ada` in `ada_run3` and `/data/ada`, not in `adapter`."""
    ordered = sorted(names, key=len, reverse=True)
    if not ordered:
        return None
    inner = "|".join(re.escape(name) for name in ordered)
    return re.compile(rf"(?<![A-Za-z0-9])(?:{inner})(?![A-Za-z0-9])", re.IGNORECASE)
