"""Reads the kernel's and the GPU driver's own lines, wherever in a log they were pasted.

In: clean lines. Out: `KernelLine`s: what happened, and the fields that the line names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rerail.evidence.text.lines import Line
from rerail.platform.patterns import LinearPattern, linear

_OOM_KILL = linear(
    r"(?P<cgroup>Memory cgroup )?[Oo]ut of memory: (?:Killed|Kill) process (?P<pid>\d{1,18}),?"
    r" \((?P<name>[^)]*)\)"
    r"(?:.*?anon-rss:(?P<rss_kib>\d{1,18})kB)?"
)
_OOM_OTHER = linear(
    r"(?P<name>[\w.-]+) invoked oom-killer|oom-kill:constraint=(?P<constraint>\w+)"
    r"|oom_reaper: reaped process (?P<pid>\d{1,18}) \((?P<reaped>[^)]*)\)"
    r"|Task in \S+ killed as a result of limit of (?P<limit>\S+)"
    r"|memory: usage (?P<usage_kib>\d{1,18})kB, limit (?P<limit_kib>\d{1,18})kB"
)
_SEGFAULT = linear(
    r"(?P<name>[^\s\[]+)\[(?P<pid>\d{1,18})\]:? segfault at (?P<address>[0-9a-f]{1,16})"
    r" ip (?P<ip>[0-9a-f]+) sp (?P<sp>[0-9a-f]{1,16}) error (?P<error>\d{1,18})"
    r"(?: in (?P<library>[^\s\[]+)\[)?"
)
_TRAP = linear(
    r"(?:traps: )?(?P<name>[^\s\[]+)\[(?P<pid>\d{1,18})\](?: trap|:?) "
    r"(?P<trap>invalid opcode|divide error"
    r"|general protection(?: fault)?|stack segment|int3|bounds)(?: fault)? ip:(?P<ip>[0-9a-f]+)"
    r"(?:.* in (?P<library>[^\s\[]+)\[)?"
)
# A function touches its own locals, or what it is about to push. Where the stack has not run out,
# an address so close to its pointer is mapped and does not fault.
_ABOVE_STACK_POINTER = 1 << 12
_BELOW_STACK_POINTER = 1 << 16
_NEAR_NULL = 1 << 16
MOST_LINES = 20  # kept of a log
_XID = linear(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<xid>\d{1,18})(?:, (?P<rest>.*))?")


@dataclass(frozen=True)
class KernelLine:
    line: Line
    what: str  # oom-kill, segfault, trap, xid
    fields: dict[str, Any] = field(default_factory=dict)


def find_kernel_lines(lines: Iterable[Line]) -> list[KernelLine]:
    """The last of them, MOST_LINES at most, in order."""
    read = filter(None, map(read_kernel_line, reversed(list(lines))))
    return list(itertools.islice(read, MOST_LINES))[::-1]


def read_kernel_line(line: Line) -> KernelLine | None:
    text = line.text
    if match := _search(_SEGFAULT, text, "segfault at"):
        fields = _kept(match)
        address = int(fields["address"], 16)
        below = int(fields["sp"], 16) - address
        is_near = -_ABOVE_STACK_POINTER < below < _BELOW_STACK_POINTER
        fields["is_stack_overflow"] = is_near and address >= _NEAR_NULL
        return KernelLine(line, "segfault", fields)
    if match := _search(_TRAP, text, " ip:"):
        return KernelLine(line, "trap", _kept(match))
    if match := _search(_XID, text, "Xid"):
        fields = _kept(match)
        fields["xid"] = int(fields["xid"])
        return KernelLine(line, "xid", fields)
    if match := _search(_OOM_KILL, text, "ut of memory"):
        fields = _kept(match)
        fields["scope"] = "cgroup" if fields.pop("cgroup", None) else "machine"
        if rss_kib := fields.pop("rss_kib", None):
            fields["rss_bytes"] = int(rss_kib) * 1024
        return KernelLine(line, "oom-kill", fields)
    if match := _search(_OOM_OTHER, text, "oom") or _search(_OOM_OTHER, text, "limit"):
        fields = _kept(match)
        if fields.get("constraint"):
            fields["scope"] = "cgroup" if "MEMCG" in fields["constraint"] else "machine"
        if limit_kib := fields.pop("limit_kib", None):
            fields["limit_bytes"] = int(limit_kib) * 1024
        return KernelLine(line, "oom-kill", fields)
    return None


def facts_of_kill(kill: KernelLine) -> dict[str, Any]:
    """Whom the kernel killed for memory, what it held then, and the limit, as far as it says so."""
    fields = kill.fields
    known = {
        "victim_bytes": fields.get("rss_bytes"),
        "memory_limit_bytes": fields.get("limit_bytes"),
    }
    if (name := fields.get("name") or fields.get("reaped")) and "pid" in fields:
        known["victim"] = f"{name} (pid {fields['pid']})"
    return {name: value for name, value in known.items() if value}


def _search(pattern: LinearPattern, text: str, word: str) -> re.Match[str] | None:
    return pattern.search(text) if word in text else None


def _kept(match: re.Match[str]) -> dict[str, Any]:
    return {name: value for name, value in match.groupdict().items() if value is not None}
