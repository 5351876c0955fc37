"""What each thread of a process waits for, in words, from /proc alone.

In: a pid, and the other processes of the tree for the far end of pipes. Out: one Waiting per
thread: its name, what it waits for, and the address of the instruction it waits at. Promises:
nothing is stopped or signalled; a thread that ends meanwhile is left out; what may not be read
(another user's process) is left out.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from rerail.platform.os_text import is_printable
from rerail.platform.proc_files import read_stat

MOST_THREADS = 256
_MOST_PATH_BYTES = 256

_X86_64 = {
    0: "read",
    1: "write",
    7: "poll",
    17: "pread64",
    19: "readv",
    20: "writev",
    23: "select",
    34: "pause",
    35: "nanosleep",
    42: "connect",
    43: "accept",
    44: "sendto",
    45: "recvfrom",
    46: "sendmsg",
    47: "recvmsg",
    61: "wait4",
    72: "fcntl",
    73: "flock",
    74: "fsync",
    75: "fdatasync",
    128: "rt_sigtimedwait",
    130: "rt_sigsuspend",
    202: "futex",
    230: "clock_nanosleep",
    232: "epoll_wait",
    247: "waitid",
    257: "openat",
    270: "pselect6",
    271: "ppoll",
    281: "epoll_pwait",
    288: "accept4",
}
_AARCH64 = {
    22: "epoll_pwait",
    25: "fcntl",
    32: "flock",
    56: "openat",
    63: "read",
    64: "write",
    65: "readv",
    66: "writev",
    67: "pread64",
    72: "pselect6",
    73: "ppoll",
    82: "fsync",
    83: "fdatasync",
    95: "waitid",
    98: "futex",
    101: "nanosleep",
    115: "clock_nanosleep",
    133: "rt_sigsuspend",
    137: "rt_sigtimedwait",
    202: "accept",
    203: "connect",
    206: "sendto",
    207: "recvfrom",
    211: "sendmsg",
    212: "recvmsg",
    242: "accept4",
    260: "wait4",
}
_NAMES = _AARCH64 if platform.machine() in ("aarch64", "arm64") else _X86_64

_ON_DESCRIPTOR = frozenset(
    [
        "read",
        "write",
        "pread64",
        "readv",
        "writev",
        "connect",
        "accept",
        "accept4",
        "sendto",
        "recvfrom",
        "sendmsg",
        "recvmsg",
        "fcntl",
        "flock",
        "fsync",
        "fdatasync",
    ]
)
_WRITES = frozenset(["write", "writev", "sendto", "sendmsg"])
_IN_WORDS = {
    "poll": "activity on several descriptors (poll)",
    "ppoll": "activity on several descriptors (poll)",
    "select": "activity on several descriptors (select)",
    "pselect6": "activity on several descriptors (select)",
    "epoll_wait": "activity on several descriptors (epoll)",
    "epoll_pwait": "activity on several descriptors (epoll)",
    "nanosleep": "a sleep to end",
    "clock_nanosleep": "a sleep to end",
    "pause": "a signal",
    "rt_sigtimedwait": "a signal",
    "rt_sigsuspend": "a signal",
    "openat": "a file to be opened",
}


@dataclass(frozen=True)
class Waiting:
    """One thread, seen from outside."""

    thread_id: int
    name: str
    state: str  # R, S, D, T, t, Z: as in /proc
    waits_for: str | None
    address: int | None  # of the instruction it waits at
    stack_pointer: int | None
    wait_channel: str | None


def look(pid: int, tree: list[int]) -> list[Waiting]:
    """Every thread of a process; `tree` are the pids in which ends of pipes are looked for."""
    try:
        threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return []
    found = []
    for thread in threads[:MOST_THREADS]:
        waiting = _look_at_thread(pid, thread, tree)
        if waiting is not None:
            found.append(waiting)
    return found


def _look_at_thread(pid: int, thread: int, tree: list[int]) -> Waiting | None:
    folder = f"/proc/{pid}/task/{thread}/"
    stat = read_stat(pid, thread)
    if stat is None:
        return None
    name, state = stat.name, stat.state
    channel = _read(folder + "wchan")
    channel = None if channel in (None, "", "0") else channel
    call = parse_syscall(_read(folder + "syscall") or "")
    if call is None:
        return Waiting(thread, name, state, _by_state(state, channel), None, None, channel)
    number, arguments, stack_pointer, address = call
    words = _in_words(pid, number, arguments, tree)
    if state == "D":
        words = f"the disk or a network file system ({channel or 'uninterruptible'})"
    return Waiting(thread, name, state, words, address, stack_pointer, channel)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def parse_syscall(text: str) -> tuple[int, list[int], int, int] | None:
    """/proc/PID/task/T/syscall: number, six arguments, stack pointer, instruction pointer.

    None for a thread that runs, or that is stopped outside of a system call.
    """
    fields = text.split()
    if len(fields) != 9:
        return None
    try:
        number, values = int(fields[0]), [int(field, 16) for field in fields[1:]]
    except ValueError:
        return None
    return number, values[:6], values[6], values[7]


def _by_state(state: str, channel: str | None) -> str | None:
    return {
        "R": "nothing: it runs",
        "T": "a signal to go on (stopped)",
        "t": "a debugger",
        "Z": "its parent to take note of its end",
        "D": f"the disk or a network file system ({channel or 'uninterruptible'})",
        "S": channel,
    }.get(state)


def _in_words(pid: int, number: int, arguments: list[int], tree: list[int]) -> str:
    name = _NAMES.get(number, f"system call {number}")
    if name == "futex":
        return f"a lock or another thread (futex 0x{arguments[0]:x})"
    if name in ("wait4", "waitid"):
        child = _as_signed(arguments[0] if name == "wait4" else arguments[1])
        return f"process {child} to end" if child > 0 else "a child process to end"
    if name == "openat" and (path := _path_at(pid, arguments[1])):
        return f"{path} to be opened"
    if name in _ON_DESCRIPTOR:
        return describe_descriptor(pid, arguments[0], tree, writes=name in _WRITES)
    return _IN_WORDS.get(name, name)


def _path_at(pid: int, address: int) -> str:
    """The path that a process waits to open, as it gave it; "" where its memory may not be read."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            memory.seek(address)
            raw = memory.read(_MOST_PATH_BYTES).partition(b"\0")[0]
    except (OSError, ValueError, OverflowError):
        return ""
    path = raw.decode(errors="replace")
    if not path or not is_printable(path):
        return ""
    if path.startswith("/"):
        return path
    folder = _link(f"/proc/{pid}/cwd")
    return f"{folder}/{path}" if folder else ""


def _as_signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def describe_descriptor(pid: int, fd: int, tree: list[int], *, writes: bool) -> str:
    """The file, pipe or socket behind a descriptor, with who holds the other end."""
    try:
        target = Path(f"/proc/{pid}/fd/{fd}").readlink().as_posix()
    except OSError:
        return f"descriptor {fd}"
    direction = "space in" if writes else "data from"
    if target.startswith("pipe:"):
        others = [other for other in tree if other != pid and _holds(other, target)]
        if others:
            return f"{direction} a pipe with process {', '.join(map(str, others[:4]))}"
        return f"{direction} a pipe that no other process of the run holds"
    if target.startswith("socket:"):
        return f"{direction} {_describe_socket(pid, target)}"
    return f"{direction} {target}"


def _holds(pid: int, target: str) -> bool:
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(_link(entry.path) == target for entry in entries)
    except OSError:
        return False


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None


def _describe_socket(pid: int, target: str) -> str:
    inode = target[len("socket:[") : -1]
    for name in ("tcp", "tcp6"):
        for line in (_read(f"/proc/{pid}/net/{name}") or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[9] == inode:
                return f"the network: {_peer(fields[1])} to {_peer(fields[2])}"
    return "a local socket"


def _peer(text: str) -> str:
    """An address of /proc/net/tcp: hexadecimal, each four bytes in reverse."""
    found = re.fullmatch(r"([0-9A-Fa-f]{8}|[0-9A-Fa-f]{32}):([0-9A-Fa-f]{4})", text)
    if not found:
        return text
    raw = bytes.fromhex(found[1])
    port = int(found[2], 16)
    if len(raw) == 4:
        return ".".join(str(byte) for byte in reversed(raw)) + f":{port}"
    import ipaddress

    ordered = b"".join(raw[at : at + 4][::-1] for at in range(0, 16, 4))
    address = ipaddress.IPv6Address(ordered)
    return f"[{address.ipv4_mapped or address}]:{port}"
