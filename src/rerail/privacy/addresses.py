"""Network addresses in texts: which dotted or coloned numbers are one, and which are a version.

In: texts. Out: the addresses to mask. A dotted number is as often a version (`12.4.5.8`), so one is
taken for an address only where something says so: a port, a scheme, a name such as MASTER_ADDR, a
word such as "from", a range that no version has. Once known it is masked wherever it stands.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

_OCTETS = r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}"
_V4 = re.compile(rf"(?<![\w.])({_OCTETS})(?![\w.]{0, 40}\d)")
_BEFORE = re.compile(
    r"(?i)(?:://|@|\b(?:addr|address|host|hostname|ip|node|peer|server|master|endpoint|inet|listen"
    r"|bind|remote|from|to|at|via|connect(?:ed|ing)?|rank|tcp|ssh|ping)\b[\"']?[\s:=(\[/\"'-]{1,4}"
    r"|[_-](?:addr|address|host|ip|node|endpoint)[\"']?\s{0,2}[=:]\s{0,2}[\"']?)$"
)
_AFTER = re.compile(r"\]?:\d{2,5}\b|/\d{1,2}\b(?!\.)|\s{1,8}port\b")
_VERSION_BEFORE = re.compile(r"(?i)(?:[=<>~!]=|\bv|version[\s:=]{0,3}|-)$")
_LONGEST_BEFORE = 32
_V6 = re.compile(
    r"(?<![\w:.])[0-9A-Fa-f:]{2,39}:(?:[0-9A-Fa-f]{1,4}|\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])"
)

_MAC = re.compile(
    r"(?<![\w:-])[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?:-[0-9A-Fa-f]{2}){5})(?![\w:-])"
)


def find_addresses(text: str) -> Iterator[re.Match[str]]:
    """Places that are addresses by what stands around them."""
    if "." in text:
        for match in _V4.finditer(text):
            if _is_telling_v4(match[0]) and _is_announced(text, match):
                yield match
    if "::" in text or text.count(":") >= 7:
        for match in _V6.finditer(text):
            if _is_telling_v6(match[0]):
                yield match
    if text.count(":") >= 5 or text.count("-") >= 5:
        yield from _MAC.finditer(text)


def _is_announced(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - _LONGEST_BEFORE) : match.start()]
    if _AFTER.match(text, match.end()) or _BEFORE.search(before):
        return True
    is_version = _VERSION_BEFORE.search(before) is not None
    return match[0].startswith(("192.168.", "169.254.")) and not is_version


def _is_telling_v4(text: str) -> bool:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast)


def _is_telling_v6(text: str) -> bool:
    """`c10::` and `a::b` are names of C++; an address has more groups, or begins like one."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    groups = [group for group in text.split(":") if group]
    begins_like_one = len(groups) > 1 and len(groups[0]) == 4 and text[0] in "23fF"
    is_long = len(groups) >= 3 and any(c.isdigit() for c in text)
    return (begins_like_one or is_long) and not (address.is_loopback or address.is_unspecified)
