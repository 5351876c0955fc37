"""What the kernel is said to have printed, through every reader of such lines."""

from __future__ import annotations

import random
from pathlib import Path

from fuzz_bars import Bars
from fuzz_mutations import mutate_bytes
from fuzz_runner import Target

from rerail.evidence.text.kernel_lines import find_kernel_lines
from rerail.evidence.text.lines import to_lines
from rerail.recorder.kernel.log import find_oom_kills, format_line, is_relevant, parse_kmsg

_TEXT = b"""\
6,1234,98765432,-;python[4711]: segfault at 0 ip 00007f21aa sp 00007ffd01 error 4 in libc.so.6[7f2100+1a0000]
 SUBSYSTEM=pci
4,1235,98765500,-;traps: python[4712] trap invalid opcode ip:55d0 sp:7ffe error:0 in python3.11[55d0+2000]
[  123.456789] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  123.456790] memory: usage 1048576kB, limit 1048576kB, failcnt 4711
[  123.456791] memory+swap: usage 1048576kB, limit 9007199254740988kB, failcnt 0
[  123.456792] [   4711]     0  4711   123456    78900   901234        0             0 python3
[  123.456793] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job,task=python3,pid=4711,uid=0
[  123.456794] Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:4kB, UID:0 pgtables:5kB oom_score_adj:0
[  123.456795] oom_reaper: reaped process 4711 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
[  123.456796] NVRM: Xid (PCI:0000:01:00): 79, pid=4711, name=python3, GPU has fallen off the bus.
[  123.456797] Task in /job killed as a result of limit of /job
[  123.456798] EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading directory
"""  # noqa: E501 - as the kernel prints them
_WORDS = [
    b"oom-kill:constraint=CONSTRAINT_NONE,",
    b"task=",
    b",pid=",
    b"task=a,pid=1",
    b"Killed process 1 (",
    b"segfault at ",
    b" ip:",
    b"trap ",
    b"Xid (",
    b"memory: usage 1kB, limit 2kB, failcnt 3",
    b"xfs error ",
    b"rcu stall ",
    b"[4711]",
    b"oom_memcg=",
    b"oom_memcg=a,",
    b" in lib[",
    b"6,1,2,-;",
    b"9" * 5000,
    b"anon-rss:",
    b"out of memory: Killed process 1 (a) ",
]


def make(rng: random.Random, folder: Path) -> bytes:
    return mutate_bytes(rng, _TEXT, _WORDS)


def check(data: bytes, bars: Bars) -> None:
    def read() -> None:
        for record in data.split(b"\n"):
            parsed = parse_kmsg(record)
            if parsed is not None:
                format_line(*parsed)
        lines = data.decode("utf-8", "replace").split("\n")
        find_oom_kills([line for line in lines if is_relevant(line)])
        find_oom_kills(lines)
        find_kernel_lines(to_lines(enumerate(lines, start=1)))

    bars.call(read, may_raise=())


TARGET = Target(make, check, cases=2000)
