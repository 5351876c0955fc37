"""The kernel's own words during the run: oom-kill, segfault, trap, Xid, disk errors.

In: /dev/kmsg, from the place where it stood when the run began; without permission for that,
dmesg or journalctl. Out: the lines that can say why a process died. Promises: never blocks,
never waits longer than a second on another program; parsing accepts any bytes.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace

from rerail.platform.patterns import linear

MOST_LINES = 400
MOST_BYTES_READ = 16 << 20

# What a dead training run is told from. The table of every task that the kernel prints before
# an OOM kill is left out, it can be a thousand lines and names bystanders; so is its own stack.
_RELEVANT = linear(
    r"oom|out of memory|killed process|memory: usage|memory\+swap: usage|memory cgroup stats"
    r"|segfault|general protection|traps:|trap |invalid opcode|divide error|bad page"
    r"|xid|nvrm|nvlink|nvidia|amdgpu|\bmce\b|machine check|hardware error|edac"
    r"|i/o error|ext4-fs error|xfs.{0,200}(error|shutdown)|no space|read-only"
    r"|hung_task|blocked for more than|soft lockup|rcu.{0,200}stall|bug:|kernel panic"
    r"|cgroup: fork rejected|thermal|sigbus|core dump|page allocation failure",
    re.IGNORECASE,
)
_TABLE_OR_STACK = linear(r"^\[\s*(?:pid|\d+)\s*\]\s+(?:uid|\d+)\s|^\s*\??\s*\S+\+0x[0-9a-f]+/0x")


def is_relevant(line: str) -> bool:
    return bool(_RELEVANT.search(line)) and not _TABLE_OR_STACK.match(line)


def parse_kmsg(record: bytes) -> tuple[float, str] | None:
    """One record of /dev/kmsg: seconds since boot, and the message."""
    head, separator, rest = record.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3:
        return None
    try:
        seconds = int(fields[2]) / 1e6
    except ValueError:
        return None
    message = rest.split(b"\n", 1)[0].decode(errors="replace")
    # Bytes that are not printable come as \xNN; nothing of interest has them.
    return seconds, message


def format_line(seconds: float, message: str) -> str:
    """As dmesg shows it."""
    return f"[{seconds:12.6f}] {message}"


@dataclass(frozen=True)
class OomKill:
    """One kill as the kernel reports it; fields that its line does not have are None."""

    pid: int
    name: str | None
    constraint: str | None  # CONSTRAINT_MEMCG: a cgroup's limit; CONSTRAINT_NONE: the machine
    cgroup: str | None
    limit_bytes: int | None = None
    fail_count: int | None = None


_KILL = linear(r"oom-kill:constraint=(?P<constraint>\w+)")
_PID = linear(r"\d{1,10}")
_KILLED = linear(r"Killed process (?P<pid>\d{1,10}) \((?P<name>.{0,64}?)\)")
_LIMIT = linear(
    r"\bmemory(?:\+swap)?: usage \d{1,20}kB, limit (?P<limit>\d{1,20})kB,"
    r" failcnt (?P<fails>\d{1,20})"
)
_NO_LIMIT_KIB = 1 << 50
_IN_CGROUP = "CONSTRAINT_MEMCG"


def find_oom_kills(lines: list[str]) -> list[OomKill]:
    """Every OOM kill that the lines tell of, in order, one per killed process."""
    kills: dict[int, OomKill] = {}
    limit: int | None = None
    fails: int | None = None
    for line in lines:
        if found := _LIMIT.search(line):
            kib = int(found["limit"])
            if kib < _NO_LIMIT_KIB:
                limit = kib * 1024 if limit is None else min(limit, kib * 1024)
            fails = (fails or 0) + int(found["fails"])
        elif kill := _read_kill(line):
            if kill.constraint == _IN_CGROUP:
                kill = replace(kill, limit_bytes=limit, fail_count=fails)
            kills[kill.pid] = kill
            limit = fails = None
        elif found := _KILLED.search(line):
            pid = int(found["pid"])
            kills.setdefault(pid, OomKill(pid, found["name"], None, None))
    return list(kills.values())


def _read_kill(line: str) -> OomKill | None:
    """`oom-kill:constraint=…,oom_memcg=…,task=NAME,pid=N,uid=…`; a name may hold anything."""
    found = _KILL.search(line)
    if found is None:
        return None
    before, _, after = line[found.end() :].rpartition(",pid=")
    pid = _PID.match(after)
    fields, has_task, name = before.partition(",task=")
    if pid is None or not has_task:
        return None
    group = None
    if found["constraint"] == _IN_CGROUP:
        group = fields.partition("oom_memcg=")[2].partition(",")[0] or None
    return OomKill(int(pid[0]), name, found["constraint"], group)


class KernelLog:
    """Remembers where the kernel's log stood, and reads what came after."""

    def __init__(self) -> None:
        self._unix = time.time()
        self._boot_seconds = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.missing: str | None = None
        self._fd = -1
        try:
            self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self._close()
            self.missing = f"/dev/kmsg: {error.strerror or error}"

    def lines(self, *, may_ask_programs: bool) -> list[str]:
        """What the kernel has said since; `may_ask_programs` allows the slower ways."""
        if self._fd >= 0:
            found = self._read_kmsg()
        elif may_ask_programs:
            found = self._ask_programs()
        else:
            found = []
        return found[-MOST_LINES:]

    def _read_kmsg(self) -> list[str]:
        lines: list[str] = []
        bytes_read = 0
        while bytes_read < MOST_BYTES_READ:
            try:
                record = os.read(self._fd, 8192)
            except BrokenPipeError:
                continue  # the kernel's buffer has overtaken us: reading goes on at its oldest
            except OSError:
                break  # EAGAIN: no more
            if not record:
                break
            bytes_read += len(record)
            parsed = parse_kmsg(record)
            if parsed is not None and is_relevant(parsed[1]):
                lines.append(format_line(*parsed))
        self._close()
        return lines

    def _ask_programs(self) -> list[str]:
        import subprocess  # late: it takes longer to import than all the rest of this module

        for command in (
            ["dmesg"],
            [
                "journalctl",
                "-k",
                "-o",
                "short-monotonic",
                "--no-pager",
                f"--since=@{self._unix:.0f}",
            ],
        ):
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=1.0,
                    check=True,
                )
            except (OSError, subprocess.SubprocessError):
                continue
            self.missing = None
            text = done.stdout.decode(errors="replace")
            return [line for line in self._since_start(text.splitlines()) if is_relevant(line)]
        return []

    def _since_start(self, lines: list[str]) -> list[str]:
        """Lines with a time since boot that is not before the run; others stay out."""
        found = []
        for line in lines:
            stamp = re.match(r"\[\s*(\d+\.\d+)\]", line)
            if stamp and float(stamp[1]) >= self._boot_seconds - 1.0:
                found.append(line)
        return found

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
