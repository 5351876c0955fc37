"""What the kernel lets through to a socket of the process connector: small programs for it.

In: nothing, or the pids that matter. Out: a classic BPF program, attached to the socket. Loads are
big-endian, so constants are swapped; equal words stay equal.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

EVENT_AT = 36  # after struct nlmsghdr (16) and struct cn_msg (20): struct proc_event
DATA_AT = EVENT_AT + 16  # after what, cpu and timestamp_ns
FORK, EXEC, COMM, EXIT = 0x1, 0x2, 0x200, 0x80000000
MOST_PIDS = 200  # a jump reaches 255 instructions ahead

_SO_ATTACH_FILTER = 26
_LOAD, _EQUAL, _EQUAL_X, _TO_X, _RETURN = 0x20, 0x15, 0x1D, 0x07, 0x06
_ACCEPT = (_RETURN, 0, 0, 0xFFFF)
_REJECT = (_RETURN, 0, 0, 0)

Instruction = tuple[int, int, int, int]  # operation, skip if true, skip if false, operand


def whole_processes() -> list[Instruction]:
    """Acknowledgements and execs; forks, exits and names of whole processes, not of threads."""
    return [
        (_LOAD, 0, 0, EVENT_AT),
        (_EQUAL, 12, 0, 0),
        (_EQUAL, 11, 0, socket.htonl(EXEC)),
        (_EQUAL, 2, 0, socket.htonl(COMM)),
        (_EQUAL, 1, 0, socket.htonl(EXIT)),
        (_EQUAL, 4, 9, socket.htonl(FORK)),
        (_LOAD, 0, 0, DATA_AT),  # an exit or a new name: pid, tgid
        (_TO_X, 0, 0, 0),
        (_LOAD, 0, 0, DATA_AT + 4),
        (_EQUAL_X, 4, 5, 0),
        (_LOAD, 0, 0, DATA_AT + 8),  # a fork: parent_pid, parent_tgid, child_pid, child_tgid
        (_TO_X, 0, 0, 0),
        (_LOAD, 0, 0, DATA_AT + 12),
        (_EQUAL_X, 0, 1, 0),
        _ACCEPT,
        _REJECT,
    ]


def only(pids: Sequence[int]) -> list[Instruction]:
    """Forks by these processes, and their own execs, new names and exits."""
    pids = pids[-MOST_PIDS:]
    # What it is was told above; here only whose it is. The tgid is the second word of all four
    # kinds: of the process itself, or of the parent.
    program: list[Instruction] = [(_LOAD, 0, 0, DATA_AT + 4)]
    for index, pid in enumerate(pids):
        program.append((_EQUAL, len(pids) - index, 0, socket.htonl(pid)))
    return [*program, _REJECT, _ACCEPT]


def attach(link: socket.socket, program: Sequence[Instruction]) -> bool:
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    kept = ctypes.create_string_buffer(code, len(code))
    where = struct.pack("@HP", len(program), ctypes.addressof(kept))
    try:
        link.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, where)
        return True
    except OSError:
        return False
