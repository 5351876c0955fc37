"""Secrets of a command line: what follows `--token`, `curl -u`, `sshpass -p`, `-p`, and shapes.

In: the arguments. Out: for each the stretch that is secret, or None. An argument is a value as a
whole, whatever characters it has; in a shell's script (`sh -c "…"`) it is a text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rerail.privacy.names import (
    MASKED,
    PROGRAM,
    PROGRAMS,
    SECRET_NAME,
    is_secret_value,
    looks_like_a_password,
)

_FLAG = re.compile(r"^-{1,2}[A-Za-z][\w.-]*$")
# Also Hydra's `+a.b=…`, and `a=…` as the value of a flag: --set=a=…, --conf=a.b=….
_ASSIGNED = re.compile(r"^(?P<name>(?:-{0,2}|\+{1,2})[A-Za-z_][\w.+-]*)=(?P<value>.*)$", re.DOTALL)
_MOST_ASSIGNED = 3
_SCRIPT = re.compile(r"^-[a-z]*c$")
_PASSWORD_FLAGS = ("-p", "-P")

Stretch = tuple[int, int, str]


def secrets_of(arguments: Sequence[str]) -> list[Stretch | None]:
    """For each argument the part that names alone make secret: start, end and kind."""
    found: list[Stretch | None] = [None] * len(arguments)
    for at, argument in enumerate(arguments):
        before = arguments[at - 1] if at else ""
        if _is_announced(before, argument):
            found[at] = (0, len(argument), SECRET_NAME)
            continue
        if not _SCRIPT.match(before) and (start := _start_of_assigned(argument)) is not None:
            found[at] = (start, len(argument), SECRET_NAME)
    for at, start in _of_programs(arguments):
        found[at] = (start, len(arguments[at]), PROGRAM)
    return found


def _start_of_assigned(argument: str) -> int | None:
    """Return where the secret value of `name=value` begins, or of `flag=name=value`."""
    start = 0
    for _ in range(_MOST_ASSIGNED):
        assigned = _ASSIGNED.match(argument[start:])
        if assigned is None:
            return None
        start += assigned.start("value")
        if is_secret_value(assigned["name"].lstrip("+"), assigned["value"]):
            return start
    return None


def _is_announced(flag: str, value: str) -> bool:
    if MASKED.fullmatch(value):
        return False
    if flag in _PASSWORD_FLAGS:
        return not value.startswith("-") and looks_like_a_password(value)
    if not _FLAG.match(flag) or (value.startswith("-") and _FLAG.match(value)):
        return False
    return is_secret_value(flag, value)


def _of_programs(arguments: Sequence[str]) -> list[tuple[int, int]]:
    """What programs with a way of their own (`curl -u ada:…`) take: argument and start."""
    if not any(len(argument) > 1 and argument[0] == "-" for argument in arguments):
        return []
    # As one line in which every argument is one word; a shell's script is read as a text elsewhere.
    words = [argument.encode("utf-8", "replace").translate(_ONE_WORD) for argument in arguments]
    line = b" ".join(words)
    if not any(program.encode() in line for program in PROGRAMS):
        return []
    from rerail.privacy.finding import find_secrets  # late: most commands name no such program

    starts, length = [], 0
    for word in words:
        starts.append(length)
        length += len(word) + 1
    places = []
    for found in find_secrets(line):
        if found.kind == PROGRAM:
            at = max(i for i, start in enumerate(starts) if start <= found.start)
            before = words[at][: found.start - starts[at]].decode("utf-8", "replace")
            places.append((at, len(before)))
    return places


_ONE_WORD = bytes.maketrans(b" \t\r\n;|\"'", b"________")
