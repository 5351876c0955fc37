"""Reads the kernel's and the GPU driver's own lines, wherever in a log they were pasted.

In: clean lines. Out: `KernelLine`s: what happened, and the fields that the line names. Of a long
line only what stands near the telling word is looked at: the kernel's own lines are short, and a
pattern that begins with a name of any length would take a megabyte without a space for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rerail.evidence.lines import Line

_OOM_KILL = re.compile(
    r"(?P<cgroup>Memory cgroup )?[Oo]ut of memory: (?:Killed|Kill) process (?P<pid>\d{1,18}),?"
    r" \((?P<name>[^)]*)\)"
    r"(?:.*?anon-rss:(?P<rss_kib>\d{1,18})kB)?"
)
_OOM_OTHER = re.compile(
    r"(?P<name>[\w.-]+) invoked oom-killer|oom-kill:constraint=(?P<constraint>\w+)"
    r"|oom_reaper: reaped process (?P<pid>\d{1,18}) \((?P<reaped>[^)]*)\)"
    r"|Task in \S+ killed as a result of limit of (?P<limit>\S+)"
    r"|memory: usage (?P<usage_kib>\d{1,18})kB, limit (?P<limit_kib>\d{1,18})kB"
)
_SEGFAULT = re.compile(
    r"(?P<name>[^\s\[]+)\[(?P<pid>\d{1,18})\]:? segfault at (?P<address>[0-9a-f]+)"
    r" ip (?P<ip>[0-9a-f]+) sp (?P<sp>[0-9a-f]+) error (?P<error>\d{1,18})"
    r"(?: in (?P<library>[^\s\[]+)\[)?"
)
_TRAP = re.compile(
    r"(?:traps: )?(?P<name>[^\s\[]+)\[(?P<pid>\d{1,18})\](?: trap|:?) "
    r"(?P<trap>invalid opcode|divide error"
    r"|general protection(?: fault)?|stack segment|int3|bounds)(?: fault)? ip:(?P<ip>[0-9a-f]+)"
    r"(?:.* in (?P<library>[^\s\[]+)\[)?"
)
_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<xid>\d{1,18})(?:, (?P<rest>.*))?")


BEFORE, AFTER = 300, 2000  # characters around the word that a line is told by


@dataclass(frozen=True)
class KernelLine:
    line: Line
    what: str  # oom-kill, segfault, trap, xid
    fields: dict[str, Any] = field(default_factory=dict)


def find_kernel_lines(lines: Iterable[Line]) -> list[KernelLine]:
    found = []
    for line in lines:
        if one := read_kernel_line(line):
            found.append(one)
    return found


def read_kernel_line(line: Line) -> KernelLine | None:
    text = line.text
    if match := _search(_SEGFAULT, text, "segfault at"):
        return KernelLine(line, "segfault", _kept(match))
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
    if match := _search(_OOM_OTHER, text, "oom", "limit"):
        fields = _kept(match)
        if fields.get("constraint"):
            fields["scope"] = "cgroup" if "MEMCG" in fields["constraint"] else "machine"
        if limit_kib := fields.pop("limit_kib", None):
            fields["limit_bytes"] = int(limit_kib) * 1024
        return KernelLine(line, "oom-kill", fields)
    return None


def _search(pattern: re.Pattern[str], text: str, *words: str) -> re.Match[str] | None:
    """The pattern in a short line, or near the first of these words in a long one."""
    at = next((at for word in words if (at := text.find(word)) >= 0), -1)
    if at < 0:
        return None
    if len(text) <= BEFORE + AFTER:
        return pattern.search(text)
    return pattern.search(text[max(0, at - BEFORE) : at + AFTER])


def _kept(match: re.Match[str]) -> dict[str, Any]:
    return {name: value for name, value in match.groupdict().items() if value is not None}
